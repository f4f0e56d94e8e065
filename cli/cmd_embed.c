/* weir embed STORE: the embeddings with what they embed. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static float float_from_half(uint16_t half) {
    uint32_t sign = (uint32_t)(half >> 15) << 31;
    uint32_t exponent = half >> 10 & 31;
    uint32_t fraction = half & 1023;
    float value;
    if (exponent == 0) {
        value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    uint32_t bits = sign | (exponent == 31 ? 255u : exponent + 112) << 23 | fraction << 13;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The text of item `index`, of a column, a category or a text, into memory that the caller frees. */
static char *text_of(const weir_store *store, char kind, uint32_t index, size_t *size) {
    weir_text view = kind == 't' ? weir_store_text(store, index) : (weir_text){0};
    size_t (*write)(const weir_store *, uint32_t, char *, size_t) =
        kind == 'c' ? weir_store_column_text : weir_store_category_text;
    *size = kind == 't' ? view.size : write(store, index, NULL, 0);
    char *text = malloc(*size + 1);
    if (text && kind == 't')
        memcpy(text, view.data, view.size);
    else if (text)
        write(store, index, text, *size + 1);
    return text;
}

enum { SHOWN = 8 };

static int print_embeddings(const weir_store *store, char kind, uint32_t count, bool as_json) {
    const weir_store_info *info = weir_store_describe(store);
    const uint8_t *vectors = kind == 'c'   ? info->column_embeddings
                             : kind == 'g' ? info->category_embeddings
                                           : info->text_embeddings;
    weir_json_writer w;
    weir_json_writer_memory(&w, NULL);
    weir_json_array(&w);
    for (uint32_t i = 0; i < count; i++) {
        size_t size;
        const uint8_t *vector = vectors + (size_t)i * info->embedding_dim * 2;
        weir_error error;
        char *text = text_of(store, kind, i, &size);
        if (!text)
            cli_error(&error, WEIR_OUT_OF_MEMORY, "no memory for a text of %zu bytes", size);
        if (!text || !weir_store_touch(store, vector, (size_t)info->embedding_dim * 2) ||
            weir_store_status(store, &error) != WEIR_OK) {
            weir_json_release(&w);
            if (text)
                (void)!weir_store_status(store, &error);
            free(text);
            return cli_fail(&error, as_json);
        }
        if (as_json) {
            weir_json_object(&w);
            weir_json_pair_uint(&w, "index", i);
            weir_json_key(&w, "text");
            weir_json_text_n(&w, text, size);
            weir_json_pair_hex(&w, "f16", vector, (size_t)info->embedding_dim * 2);
            weir_json_end_object(&w);
        } else {
            char cut[201] = "";
            memcpy(cut, text, cli_cut(text, size, sizeof cut - 1));
            printf("%-50s ", cli_shown(cut));
            for (uint32_t k = 0; k < info->embedding_dim && k < SHOWN; k++)
                printf(" %7.4f", (double)float_from_half((uint16_t)(vector[2 * k] | vector[2 * k + 1] << 8)));
            printf(info->embedding_dim > SHOWN ? " …\n" : "\n");
        }
        free(text);
    }
    weir_json_end_array(&w);
    if (as_json)
        return cli_print_json(&w);
    weir_json_release(&w);
    return cli_flush();
}

static int run(const cli_command *self, int argc, char **argv) {
    bool as_json = false, columns = false, categories = false;
    uint32_t texts = 0;
    cli_option options[] = {CLI_OPTION("--json", &as_json), CLI_OPTION("--columns", &columns),
                            CLI_OPTION("--categories", &categories), CLI_OPTION("--texts", &texts)};
    const char *path;
    weir_error error;
    weir_store *store;
    int count = cli_parse(self, options, 4, argc, argv, &path, 1, NULL);
    if (count < 0)
        return CLI_USAGE;
    bool has_texts = options[3].given;
    if (count != 1 || (int)columns + (int)categories + (int)has_texts != 1)
        return cli_usage(self, "say which store, and one of --columns, --categories and --texts N");
    if (weir_store_open(NULL, path, &store, &error) != WEIR_OK)
        return cli_fail(&error, as_json);
    const weir_store_info *info = weir_store_describe(store);
    if (info->embedding_dim == 0) {
        weir_store_close(store);
        cli_error(&error, WEIR_CONTRACT_VIOLATION, "%s was made without embeddings", path);
        return cli_fail(&error, as_json);
    }
    uint32_t shown = columns                    ? info->column_count
                     : categories               ? info->category_count
                     : texts < info->text_count ? texts
                                                : info->text_count;
    int result = print_embeddings(store, columns ? 'c' : categories ? 'g' : 't', shown, as_json);
    weir_store_close(store);
    return result;
}

const cli_command cli_embed = {
    .name = "embed",
    .summary = "print a store's embeddings with what they embed",
    .usage = "weir embed STORE --columns | --categories | --texts N [--json]",
    .help = "  --columns      the embedding of every column, by ColumnIdx\n"
            "  --categories   the embedding of every category, by CategoricalEmbeddingIdx\n"
            "  --texts N      the embeddings of the first N texts, by TextEmbeddingIdx\n"
            "  --json         print [{\"index\": …, \"text\": …, \"f16\": little-endian hex}]\n",
    .example = "  weir embed shop.weir --columns\n  weir embed shop.weir --texts 10 --json\n",
    .run = run,
};
