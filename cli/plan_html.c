/* weir plan --html OUT: the plan as one page without any network. */
#include "plan_output.h"

weir_status cli_plan_write_html(const weir_plan *plan, const char *name, const char *path,
                                weir_error *error) {
    (void)plan;
    (void)name;
    *error = (weir_error){.status = WEIR_CONTRACT_VIOLATION, .failure_operator = "weir.cli"};
    snprintf(error->message, sizeof error->message, "this build cannot write %s: it has no page", path);
    return error->status;
}
