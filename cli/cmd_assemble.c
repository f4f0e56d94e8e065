/* weir assemble FOLDER: runs of rows, which many machines have written, become a store. It is ingest with
 * such a folder as its source. */
#include "ingest_run.h"

static int run(const cli_command *self, int argc, char **argv) {
    return cli_ingest_command(self, true, argc, argv);
}

const cli_command cli_assemble = {
    .name = "assemble",
    .summary = "make a store from runs of rows that many machines wrote",
    .usage = "weir assemble FOLDER [--schema F] [-o OUT.weir] [OPTION OF WEIR INGEST]...",
    .help =
        "  FOLDER            a complete folder of runs: with a row-runs.json (docs/sources.md)\n"
        "  --schema F        what to read and what it means (default: schema.json in the folder; without "
        "one,\n"
        "                    drafted)\n"
        "  -o, --output F    the store (default: NAME.weir, by the schema's name)\n\n"
        "All other options are those of 'weir ingest', which this is, with runs as the source: what Spark, "
        "Ray,\n"
        "Dask or the export of a warehouse have written. Every byte of them is verified. The store is the "
        "same as\n"
        "that of the same rows in any database.\n",
    .example = "  weir assemble shop.runs -o shop.weir\n",
    .run = run,
};
