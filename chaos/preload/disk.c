/*
 * A slow disk, for one process: LD_PRELOAD this library, name its control file in AFTERSHOCK_DISK, and the directory of
 * the files that are on the disk in AFTERSHOCK_DISK_FILES.
 *
 * A write to such a file, or a request to bring it to the device, waits before it is done, in the thread that asked for
 * it. Sockets, pipes and other files are as fast as ever. The control file is mapped, so a change takes effect at once,
 * and ends the waits that are longer. Its layout is the layout of chaos/preload/libraries.py: the lowest bit of
 * `version` says which of two settings counts. The library counts in the file what it has delayed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define SLICE 20000000LL /* time in ns after which a waiting thread looks whether the disk is fast again */
#define WRITE 0
#define SYNC 1

struct control {
    uint64_t version;
    int64_t delays_ns[2][2]; /* settings, each with the delay of a write and of a sync */
    uint64_t done[2];        /* writes and syncs that were delayed */
};

static volatile struct control *control;
static char files[4096];
static size_t files_length;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

static int64_t delay_ns(int kind)
{
    uint64_t version;
    int64_t delay;
    do {
        version = __atomic_load_n(&control->version, __ATOMIC_ACQUIRE);
        delay = control->delays_ns[version & 1][kind];
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } while (version != __atomic_load_n(&control->version, __ATOMIC_RELAXED));
    return delay;
}

static int inside(const char *path)
{
    return strncmp(path, files, files_length) == 0 && (path[files_length] == '/' || path[files_length] == 0);
}

static int on_disk(int file)
{
    struct stat status;
    char link[32], path[sizeof(files)];
    if (fstat(file, &status) || !(S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)))
        return 0;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof(path) - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return inside(path);
}

static int mapped_from_disk(const void *address)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t size = 0;
    unsigned long low, high;
    int place, found = 0;
    while (maps && !found && getline(&line, &size, maps) > 0)
        if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %n", &low, &high, &place) == 2 && (unsigned long)address >= low &&
            (unsigned long)address < high) {
            line[strcspn(line, "\n")] = 0;
            found = line[place] == '/' && inside(line + place) ? 1 : -1;
        }
    free(line);
    if (maps)
        fclose(maps);
    return found == 1;
}

static void pause_for(int kind)
{
    int64_t began = now_ns(), left;
    __atomic_fetch_add(&control->done[kind], 1, __ATOMIC_RELAXED);
    while ((left = began + delay_ns(kind) - now_ns()) > 0) {
        struct timespec slice = {0, left < SLICE ? left : SLICE};
        nanosleep(&slice, NULL);
    }
}

#define DELAY(kind, concerned)                                                                                         \
    if (control && delay_ns(kind) > 0) {                                                                               \
        int before = errno;                                                                                            \
        if (concerned)                                                                                                 \
            pause_for(kind);                                                                                           \
        errno = before;                                                                                                \
    }

__attribute__((constructor)) static void load(void)
{
    const char *path = getenv("AFTERSHOCK_DISK"), *directory = getenv("AFTERSHOCK_DISK_FILES");
    if (!path)
        return;
    int file = open(path, O_RDWR | O_CLOEXEC);
    void *page = file < 0 ? MAP_FAILED
                          : mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) {
        perror(path);
        _exit(120);
    }
    close(file);
    if (!directory || strlen(directory) >= sizeof(files)) {
        fprintf(stderr, "AFTERSHOCK_DISK_FILES names no directory\n");
        _exit(120);
    }
    files_length = strlen(strcpy(files, directory));
    control = page;
}

#define REAL(type, name, ...)                                                                                          \
    static type (*real)(__VA_ARGS__);                                                                                  \
    if (!real)                                                                                                         \
        real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name);

ssize_t write(int file, const void *data, size_t size)
{
    DELAY(WRITE, on_disk(file))
    REAL(ssize_t, "write", int, const void *, size_t)
    return real(file, data, size);
}

ssize_t writev(int file, const struct iovec *parts, int count)
{
    DELAY(WRITE, on_disk(file))
    REAL(ssize_t, "writev", int, const struct iovec *, int)
    return real(file, parts, count);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t at)
{
    DELAY(WRITE, on_disk(file))
    REAL(ssize_t, "pwrite", int, const void *, size_t, off_t)
    return real(file, data, size, at);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t at)
{
    DELAY(WRITE, on_disk(file))
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t)
    return real(file, data, size, at);
}

ssize_t pwritev(int file, const struct iovec *parts, int count, off_t at)
{
    DELAY(WRITE, on_disk(file))
    REAL(ssize_t, "pwritev", int, const struct iovec *, int, off_t)
    return real(file, parts, count, at);
}

ssize_t pwritev64(int file, const struct iovec *parts, int count, off64_t at)
{
    DELAY(WRITE, on_disk(file))
    REAL(ssize_t, "pwritev64", int, const struct iovec *, int, off64_t)
    return real(file, parts, count, at);
}

int posix_fallocate64(int file, off64_t at, off64_t size)
{
    DELAY(WRITE, on_disk(file))
    REAL(int, "posix_fallocate64", int, off64_t, off64_t)
    return real(file, at, size);
}

int fallocate64(int file, int mode, off64_t at, off64_t size)
{
    DELAY(WRITE, on_disk(file))
    REAL(int, "fallocate64", int, int, off64_t, off64_t)
    return real(file, mode, at, size);
}

int fsync(int file)
{
    DELAY(SYNC, on_disk(file))
    REAL(int, "fsync", int)
    return real(file);
}

int fdatasync(int file)
{
    DELAY(SYNC, on_disk(file))
    REAL(int, "fdatasync", int)
    return real(file);
}

int msync(void *address, size_t size, int flags)
{
    DELAY(SYNC, (flags & MS_SYNC) && mapped_from_disk(address))
    REAL(int, "msync", void *, size_t, int)
    return real(address, size, flags);
}
