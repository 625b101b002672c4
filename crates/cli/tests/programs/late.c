/* Outlives its run and begins programs in every way there is: late FILE. It waits until FILE is
 * there. */
#include "check.h"
#include <spawn.h>

extern char **environ;
static char *words[] = {"env", 0};
static const char *path = "/usr/bin/env";

static void begin(int way, char **copies)
{
    switch (way) {
    case 0: execve(path, words, environ); break;
    case 1: execve(path, words, copies); break;
    case 2: syscall(SYS_execve, path, words, environ); break;
    case 3: execvp("env", words); break;
    case 4: fexecve(open(path, O_RDONLY), words, copies); break;
    case 5: execveat(AT_FDCWD, path, words, copies, 0); break;
    case 6: execle(path, "env", (char *)0, copies); break;
    }
    _exit(9);
}

int main(int count, char **arguments)
{
    int entries = 0, status;
    while (environ[entries]) entries++;
    /* As shells keep it: in memory of their own. */
    char **copies = calloc(entries + 1, sizeof *copies);
    for (int entry = 0; entry < entries; entry++) copies[entry] = strdup(environ[entry]);
    if (fork()) return 0;
    while (access(arguments[1], F_OK)) usleep(10000);
    for (int way = 0; way <= 9; way++) {
        pid_t child = -1;
        if (way == 7) EXPECT(posix_spawn(&child, path, 0, 0, words, copies) == 0);
        else if (way == 8) EXPECT(system("exec /usr/bin/env") == 0);
        else if (way == 9) {
            if ((child = vfork()) == 0) {
                execve(path, words, copies);
                _exit(9);
            }
        } else if ((child = fork()) == 0) begin(way, copies);
        if (child > 0) {
            EXPECT(waitpid(child, &status, 0) == child);
            EXPECT(status == 0);
        }
    }
    puts("right");
    return 0;
}
