/* weir: a deterministic data plane for training models. Everything at once; each part can be included alone.
 */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include "weir/base.h"
#include "weir/cbor.h"
#include "weir/hash.h"
#include "weir/plan.h"

#endif
