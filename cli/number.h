/* Numbers as the database has them, for people. */
#ifndef WEIR_CLI_NUMBER_H
#define WEIR_CLI_NUMBER_H

#include "weir/weir.h"

enum { CLI_NUMBER_SIZE = 48 };

/* The number that a normalised value stands for: the integer, else the shortest decimal, that normalises to
 * exactly these bits. "≈ 38214003" if float32 cannot tell it from the integers beside it. */
void cli_number_text(float normalised, const weir_statistics *statistics, char out[CLI_NUMBER_SIZE]);

#endif
