/* Listing children: the rows that a walk has visited give their children to the levels, in the order of their
 * visits, so that draws keep their order. In steps, so that what one reads was asked for in the one before:
 * collect what is to be listed, find the lists, search them, list what is taken. */
#ifndef WEIR_BATCH_LISTING_H
#define WEIR_BATCH_LISTING_H

#include "batch/walk.h"

/* Rows whose children are listed together: what they lead to stays near. */
enum { WEIR_BATCH__LISTED_TOGETHER = 64 };

/* Collects what the next rows are to list, and asks for where it is; false if all are listed. */
bool weir_batch__listing_begin(weir_batch__walk *walk);

/* Finds the lists. */
void weir_batch__listing_find(weir_batch__walk *walk);

/* Takes the searches further; says whether one is left. */
bool weir_batch__listing_search(weir_batch__walk *walk);

/* Lists what is taken; says whether some is left. */
bool weir_batch__listing_list(weir_batch__walk *walk);

#endif
