/* Every command, in the order of the help. X(NAME) is `cli_NAME`, defined in cmd_NAME.c. */
#ifndef WEIR_CLI_COMMANDS_H
#define WEIR_CLI_COMMANDS_H

#define CLI_COMMANDS(X)                                                                                      \
    X(demo)                                                                                                  \
    X(init)                                                                                                  \
    X(schema)                                                                                                \
    X(ingest)                                                                                                \
    X(assemble)                                                                                              \
    X(info)                                                                                                  \
    X(verify)                                                                                                \
    X(push)                                                                                                  \
    X(pull)                                                                                                  \
    X(embed)                                                                                                 \
    X(manifest)                                                                                              \
    X(next)                                                                                                  \
    X(locate)                                                                                                \
    X(permute)                                                                                               \
    X(batch)                                                                                                 \
    X(context)                                                                                               \
    X(run)                                                                                                   \
    X(graph)                                                                                                 \
    X(plan)                                                                                                  \
    X(replay)                                                                                                \
    X(diff)                                                                                                  \
    X(merge)                                                                                                 \
    X(cbor)                                                                                                  \
    X(version)                                                                                               \
    X(help)

#endif
