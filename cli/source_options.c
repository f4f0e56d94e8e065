/* See source_options.h. */
#include "source_options.h"

void cli_use_source(const cli_source_options *source, weir_ingest_options *out) {
    out->csv = (weir_csv_options){.nulls = source->nulls.list,
                                  .null_count = (uint32_t)source->nulls.count,
                                  .delimiter = source->delimiter,
                                  .quote = source->quote,
                                  .header = source->header      ? 1
                                            : source->no_header ? -1
                                                                : 0};
    out->search_path = source->pg_schema;
    out->silence_s = source->timeout;
}
