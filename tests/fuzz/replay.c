/* Replays a corpus through a fuzz target without libFuzzer, so that every input that was ever interesting
 * is tried in every build. Arguments are files and folders. Each input runs in a process of its own, is
 * copied into memory of exactly its size (so that a sanitizer sees a read past it), and is named where it
 * fails. Exit status: 0 when all passed, 1 when one failed, 2 when there was nothing to replay. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replayed, failed;

static void run_input(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        _exit(3);
    long size = ftell(file);
    rewind(file);
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
    if (size < 0 || !data || fread(data, 1, (size_t)size, file) != (size_t)size)
        _exit(3);
    fclose(file);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    exit(0);
}

static void replay_file(const char *path) {
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        run_input(path);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        printf("failed: %s\n", path);
        failed++;
    }
    replayed++;
}

static void replay_folder(const char *folder) {
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            replay_file(path);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        struct stat status;
        if (stat(argv[i], &status) == 0 && S_ISDIR(status.st_mode))
            replay_folder(argv[i]);
        else
            replay_file(argv[i]);
    }
    printf("%d inputs, %d failed\n", replayed, failed);
    return replayed == 0 ? 2 : failed > 0;
}
