/* What a call says beside the graph: the mode or preset, and how arenas are configured. */
#include <string.h>

#include "plan/planning.h"

/* ---- Modes ------------------------------------------------------------------------------------- */

static const char *const mode_names[WEIR_PLAN__MODES] = {"inference", "forward", "backward"};

const char *weir_plan__mode_name(weir_plan__graph_mode mode) {
    return mode_names[mode];
}

static bool mode_named(const char *name, weir_plan__graph_mode *mode) {
    for (unsigned i = 0; i < WEIR_PLAN__MODES; i++)
        if (strcmp(name, mode_names[i]) == 0) {
            *mode = (weir_plan__graph_mode)i;
            return true;
        }
    return false;
}

/* remat_enabled goes with every mode: *mode is then what was asked for. */
static weir_status preset_mode(const char *preset, weir_plan__graph_mode *mode, bool *is_remat,
                               weir_error *error) {
    if (strcmp(preset, "remat_enabled") == 0) {
        *is_remat = true;
        return WEIR_OK;
    }
    if (strcmp(preset, "train_full") == 0) {
        *mode = WEIR_PLAN__BACKWARD;
        return WEIR_OK;
    }
    if (strcmp(preset, "inference") == 0) {
        *mode = WEIR_PLAN__INFERENCE;
        return WEIR_OK;
    }
    return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                      "unknown preset '%.40s'; choose train_full, inference or remat_enabled", preset);
}

weir_status weir_plan__mode_find(const weir_plan_options *options, weir_plan__graph_mode *mode,
                                 bool *is_remat, weir_error *error) {
    *is_remat = false;
    if (!options->mode && !options->preset)
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "no mode; choose inference, forward or backward, or a preset");
    if (options->mode && !mode_named(options->mode, mode))
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "unknown mode '%.40s'; choose inference, forward or backward", options->mode);
    if (!options->preset)
        return WEIR_OK;
    weir_plan__graph_mode wanted = options->mode ? *mode : WEIR_PLAN__BACKWARD;
    WEIR__TRY(preset_mode(options->preset, &wanted, is_remat, error));
    if (options->mode && *mode != wanted)
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "preset %s is %s mode, not %s; give one of the two", options->preset,
                          mode_names[wanted], options->mode);
    *mode = wanted;
    return WEIR_OK;
}

/* ---- Arena settings ---------------------------------------------------------------------------- */

static weir_status fault(const char *name, weir_text arena, const char *what, weir_text detail,
                         weir_error *error) {
    return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR, "%s: arena '%.*s': %s%.*s", name,
                      WEIR_PLAN__SHOW(arena), what, WEIR_PLAN__SHOW(detail));
}

static weir_status read_setting(const weir_cbor_value *key, const weir_cbor_value *value, const char *name,
                                weir_plan__arena_setting *setting, weir_error *error) {
    weir_cbor_iterator it = weir_cbor_children(value);
    weir_cbor_value field;
    weir_cbor_value number;
    weir_text none = {"", 0};
    *setting = (weir_plan__arena_setting){.name = weir_plan__text_of(key)};
    if (setting->name.size == 0 || setting->name.size > WEIR_PLAN__ARENA_NAME_MAX)
        return fault(name, setting->name, "an arena's name has 1 to 64 bytes", none, error);
    if (value->type != WEIR_CBOR_MAP)
        return fault(name, setting->name, "its configuration must be an object", none, error);
    while (weir_cbor_next(&it, &field, &number)) {
        bool is_alignment = weir_cbor_is_text(&field, "alignment_bytes");
        bool is_capacity = weir_cbor_is_text(&field, "capacity_bytes");
        bool is_page_size = weir_cbor_is_text(&field, "page_size");
        uint64_t parsed = 0;
        if (!is_alignment && !is_capacity && !is_page_size)
            return fault(name, setting->name, "unknown key ", weir_plan__text_of(&field), error);
        if (is_alignment && number.type == WEIR_CBOR_NEGATIVE)
            setting->alignment_is_negative = true;
        else if (!weir_cbor_get_uint(&number, &parsed))
            return fault(name, setting->name, "not an integer from 0 to 2^64-1: ", weir_plan__text_of(&field),
                         error);
        setting->has_alignment |= is_alignment;
        setting->has_capacity |= is_capacity;
        setting->has_page_size |= is_page_size;
        *(is_alignment  ? &setting->alignment
          : is_capacity ? &setting->capacity
                        : &setting->page_size) = parsed;
    }
    return WEIR_OK;
}

weir_status weir_plan__settings_read(const weir_env *env, const weir_cbor_value *root, const char *name,
                                     weir_plan__arena_setting **settings, size_t *count, weir_error *error) {
    weir_cbor_iterator it = weir_cbor_children(root);
    weir_cbor_value key;
    weir_cbor_value value;
    if (root->type != WEIR_CBOR_MAP)
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "%s: the arena configuration must be an object {name: {…}}", name);
    weir_plan__arena_setting *read = weir__allocate(env, (size_t)root->number, sizeof *read);
    if (!read)
        return weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR, (size_t)root->number * sizeof *read);
    weir_status status = WEIR_OK;
    for (size_t i = 0; status == WEIR_OK && weir_cbor_next(&it, &key, &value); i++)
        status = read_setting(&key, &value, name, &read[i], error);
    if (status != WEIR_OK) {
        weir__release(env, read);
        return status;
    }
    *settings = read;
    *count = (size_t)root->number;
    return WEIR_OK;
}

static bool is_alignment(uint64_t value) {
    return value != 0 && (value & (value - 1)) == 0 && value <= (uint64_t)1 << 30;
}

weir_status weir_plan__settings_check(const weir_plan__arena_setting *settings, size_t count,
                                      weir_error *error) {
    for (size_t i = 0; i < count; i++) {
        const weir_plan__arena_setting *setting = &settings[i];
        bool alignment_is_good =
            !setting->has_alignment || (!setting->alignment_is_negative && is_alignment(setting->alignment));
        bool page_size_is_good = !setting->has_page_size || is_alignment(setting->page_size);
        if (alignment_is_good && page_size_is_good)
            continue;
        weir_status status =
            weir__fail(error, WEIR_ALIGNMENT_VIOLATION, WEIR_PLAN__PREPARE_OPERATOR,
                       "arena '%.*s': %s must be a power of two from 1 to 2^30",
                       WEIR_PLAN__SHOW(setting->name), alignment_is_good ? "page_size" : "alignment_bytes");
        weir__note_uint(error, "given", alignment_is_good ? setting->page_size : setting->alignment);
        return status;
    }
    return WEIR_OK;
}
