/* weir: a deterministic data plane for training models. Everything at once; each part can be included
 * alone. */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include "weir/arenas.h"
#include "weir/arrow.h"
#include "weir/attention.h"
#include "weir/base.h"
#include "weir/batch.h"
#include "weir/context.h"
#include "weir/cursors.h"
#include "weir/device.h"
#include "weir/ingest.h"
#include "weir/manifest.h"
#include "weir/plan.h"
#include "weir/prefetch.h"
#include "weir/remote.h"
#include "weir/report.h"
#include "weir/row_run.h"
#include "weir/run.h"
#include "weir/sampler.h"
#include "weir/step_memory.h"
#include "weir/store.h"
#include "weir/stypes.h"
#include "weir/tensors.h"
#include "weir/trace.h"

#endif
