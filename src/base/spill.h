/* Memory that may be more than there is: an environment whose large blocks lie in a file, once the small ones
 * and the first ones have taken their share of a budget.
 *
 *   weir__spill *spill;
 *   status = weir__spill_open(&spill, env, budget, op, error);
 *   weir__spill_place(spill, "shop.weir");                  from now on blocks may lie beside this file
 *   … weir__spill_env(spill) …                              as any environment
 *   status = weir__spill_explain(spill, status, error);     of a failure: was it the disk?
 *   weir__spill_close(spill);                               after all its blocks were released
 *
 * A block that lies in the file is mapped: who uses it sees memory. What of it was touched is in the process
 * until that has more than its budget; then all of it is let go, and comes back from the system's cache, or
 * from the disk, as it is touched. So results cannot depend on the budget, only time can: who goes through a
 * block in order hardly feels it, who jumps about in one that is larger than the budget does.
 *
 * The file has no name, and is gone however the process ends. Its room on the disk is claimed before a block
 * is given, so that a full disk is a block that is not given. (A disk that cannot read what it wrote ends the
 * process with SIGBUS, as it would if it held the program.) */
#ifndef WEIR_BASE_SPILL_H
#define WEIR_BASE_SPILL_H

#include "base/internal.h"

typedef struct weir__spill weir__spill;

/* `memory`: what the process may have in memory, in bytes. */
WEIR_CHECKED weir_status weir__spill_open(weir__spill **out, const weir_env *env, uint64_t memory,
                                          const char *failure_operator, weir_error *error);
/* Where the file is to be: in the folder of `beside`. OUT_OF_MEMORY. */
WEIR_CHECKED weir_status weir__spill_place(weir__spill *spill, const char *beside, weir_error *error);
const weir_env *weir__spill_env(const weir__spill *spill);
/* The same, but its blocks stay in memory: for what is jumped about in. */
const weir_env *weir__spill_memory_env(const weir__spill *spill);
/* How many bytes all such blocks together should have. */
uint64_t weir__spill_share(const weir__spill *spill);
/* Whether memory was too small for all blocks so far. */
bool weir__spill_is_used(const weir__spill *spill);
/* Lets go of what is too much, if anything is: for who works, now and then, because the thread that looks may
 * not get its turn on a busy machine. Any thread. */
void weir__spill_look(weir__spill *spill);
/* OUT_OF_MEMORY becomes IO_ERROR if it was the file that had no room. */
weir_status weir__spill_explain(const weir__spill *spill, weir_status status, weir_error *error);
/* What is in the file, and the most that was at one time, in bytes. */
uint64_t weir__spill_size(weir__spill *spill);
uint64_t weir__spill_peak(const weir__spill *spill);
void weir__spill_close(weir__spill *spill); /* takes NULL */

#endif
