/* What a call says beside the graph: the mode or preset, and how arenas are configured. */
#include <string.h>

#include "plan/planning.h"

/* ---- Modes ------------------------------------------------------------------------------------- */

const char *const weir_plan__modes[] = {"inference", "forward", "backward", NULL};

weir_status weir_plan__mode_find(const weir_plan_options *options, weir_plan__graph_mode *mode,
                                 bool *is_remat, weir_error *error) {
    const char *preset = options->preset;
    *is_remat = false;
    *mode = WEIR_PLAN__BACKWARD;
    if (!options->mode && !preset)
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "no mode; choose inference, forward or backward, or a preset");
    if (options->mode) {
        for (*mode = 0; *mode < WEIR_PLAN__MODES && strcmp(options->mode, weir_plan__modes[*mode]) != 0;)
            ++*mode;
        if (*mode == WEIR_PLAN__MODES)
            return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                              "unknown mode '%.40s'; choose inference, forward or backward", options->mode);
    }
    if (!preset)
        return WEIR_OK;
    weir_plan__graph_mode wanted = *mode;
    if (strcmp(preset, "remat_enabled") == 0) /* goes with every mode */
        *is_remat = true;
    else if (strcmp(preset, "train_full") == 0)
        wanted = WEIR_PLAN__BACKWARD;
    else if (strcmp(preset, "inference") == 0)
        wanted = WEIR_PLAN__INFERENCE;
    else
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "unknown preset '%.40s'; choose train_full, inference or remat_enabled", preset);
    if (options->mode && *mode != wanted)
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "preset %s is %s mode, not %s; give one of the two", preset,
                          weir_plan__modes[wanted], options->mode);
    *mode = wanted;
    return WEIR_OK;
}

/* ---- Arena settings ---------------------------------------------------------------------------- */

/* A negative alignment is a number that does not fit, not another type. */
static weir_status read_alignment(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                                  void *object) {
    weir_plan__arena_setting *setting = object;
    setting->alignment_is_negative = value->type == WEIR_CBOR_NEGATIVE;
    return setting->alignment_is_negative ? WEIR_OK : weir__read_plain(r, field, value, object);
}

static const weir__field setting_fields[] = {
    {"alignment_bytes", WEIR__UINT(weir_plan__arena_setting, alignment, 0, UINT64_MAX),
     .read = read_alignment, .has = offsetof(weir_plan__arena_setting, has_alignment)},
    {"capacity_bytes", WEIR__UINT(weir_plan__arena_setting, capacity, 0, UINT64_MAX),
     .has = offsetof(weir_plan__arena_setting, has_capacity)},
    {"page_size", WEIR__UINT(weir_plan__arena_setting, page_size, 0, UINT64_MAX),
     .has = offsetof(weir_plan__arena_setting, has_page_size)},
};
static const weir__shape setting_shape = WEIR__SHAPE(weir_plan__arena_setting, setting_fields);

static weir_status read_settings(weir__reader *r, const weir_cbor_value *root,
                                 weir_plan__arena_setting *settings) {
    weir_cbor_iterator it = weir_cbor_children(root);
    weir_cbor_value key, value;
    for (; weir_cbor_next(&it, &key, &value); settings++) {
        size_t top = weir__enter(r, key.data, (size_t)key.number);
        settings->name = weir_plan__text_of(&key);
        if (settings->name.size == 0 || settings->name.size > WEIR_PLAN__ARENA_NAME_MAX)
            return weir__refuse(r, NULL, "is no name of an arena, which has 1 to 64 bytes");
        WEIR__TRY(weir__read(r, &value, &setting_shape, settings));
        weir__leave(r, top);
    }
    return WEIR_OK;
}

weir_status weir_plan__settings_read(const weir_env *env, const weir_cbor_value *root, const char *name,
                                     weir_plan__arena_setting **settings, size_t *count, weir_error *error) {
    weir__reader r = {.error = error,
                      .family = WEIR_INVALID_IR,
                      .failure_operator = WEIR_PLAN__PREPARE_OPERATOR,
                      .name = name,
                      .unknown = "is not a setting",
                      .is_json = true,
                      .path = "$"};
    if (root->type != WEIR_CBOR_MAP)
        return weir__refuse(&r, NULL, "must be an object of arenas: {name: {…}}");
    weir_plan__arena_setting *read = weir__allocate_zero(env, (size_t)root->number, sizeof *read);
    if (!read)
        return weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR, (size_t)root->number * sizeof *read);
    weir_status status = read_settings(&r, root, read);
    if (status != WEIR_OK) {
        weir__release(env, read);
        return status;
    }
    *settings = read;
    *count = (size_t)root->number;
    return WEIR_OK;
}

weir_status weir_plan__settings_check(const weir_plan__arena_setting *settings, size_t count,
                                      weir_error *error) {
    for (size_t i = 0; i < count; i++) {
        const weir_plan__arena_setting *setting = &settings[i];
        bool alignment_is_good = !setting->has_alignment || (!setting->alignment_is_negative &&
                                                             weir_plan__is_alignment(setting->alignment));
        bool page_size_is_good = !setting->has_page_size || weir_plan__is_alignment(setting->page_size);
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
