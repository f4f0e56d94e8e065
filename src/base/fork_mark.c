/* See fork_mark.h. */
#include "base/fork_mark.h"

#define HERE 0x77656972u

enum { MARK_SIZE = 4096 };

weir_status weir__fork_mark_open(weir__fork_mark *mark, const weir_env *env, const char *operator_name,
                                 weir_error *error) {
    uint32_t *page = env->map(env->context, -1, MARK_SIZE);
    if (!page)
        return weir__out_of_memory(error, operator_name, MARK_SIZE);
    /* Where the system cannot do this, a fork goes unnoticed; nothing else depends on it. */
    (void)env->wipe_on_fork(env->context, page, MARK_SIZE);
    *page = HERE;
    mark->page = page;
    return WEIR_OK;
}

void weir__fork_mark_close(weir__fork_mark *mark, const weir_env *env) {
    if (mark->page)
        env->unmap(env->context, (void *)(uintptr_t)mark->page, MARK_SIZE);
    mark->page = NULL;
}

bool weir__fork_mark_is_here(const weir__fork_mark *mark) {
    return mark->page && *mark->page == HERE;
}
