/* Stands in for stdin where jansson is linked from its static library: see python/CMakeLists.txt. Nothing
 * reads it. */
extern void *const __wrap_stdin;
void *const __wrap_stdin = (void *)0;
