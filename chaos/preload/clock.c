/*
 * A clock that is wrong, for one process: LD_PRELOAD this library, and name its control file in AFTERSHOCK_CLOCK.
 *
 * It changes what the C library says about CLOCK_REALTIME, and the absolute times that a process waits for on that
 * clock. CLOCK_MONOTONIC stays: the kernel does not step it either when somebody sets the clock. The control file is
 * mapped, so a change takes effect at once in every thread, without a system call. Its layout is the layout of
 * chaos/preload/libraries.py: the lowest bit of `version` says which of two settings counts, so the writer never
 * changes the setting that is read.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define EPOCH_S 1000000000LL /* absolute times before 2001 are times since boot: no machine is up for 31 years */

struct setting {
    int64_t offset_ns; /* how far ahead the clock is at the moment `since_ns` */
    int64_t since_ns;  /* by the machine's clock */
    double drift;      /* seconds gained in each second after that */
};

struct control {
    uint64_t version;
    struct setting settings[2];
};

static const volatile struct control *control;
static int (*real_gettime)(clockid_t, struct timespec *);

static int gettime(clockid_t id, struct timespec *at)
{
    return real_gettime ? real_gettime(id, at) : (int)syscall(SYS_clock_gettime, id, at);
}

static struct setting current(void)
{
    struct setting copy = {0, 0, 0};
    const volatile struct control *source = control;
    uint64_t version;
    if (!source)
        return copy;
    do {
        version = __atomic_load_n(&source->version, __ATOMIC_ACQUIRE);
        copy.offset_ns = source->settings[version & 1].offset_ns;
        copy.since_ns = source->settings[version & 1].since_ns;
        copy.drift = source->settings[version & 1].drift;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } while (version != __atomic_load_n(&source->version, __ATOMIC_RELAXED));
    return copy;
}

static int64_t shown(int64_t real_ns)
{
    struct setting c = current();
    return real_ns + c.offset_ns + (c.drift != 0 ? (int64_t)((double)(real_ns - c.since_ns) * c.drift) : 0);
}

/* Returns when the machine's clock shows the moment at which this clock shows an absolute time. */
static struct timespec real_of(const struct timespec *shown_at)
{
    struct setting c = current();
    int64_t wanted = shown_at->tv_sec * SECOND + shown_at->tv_nsec - c.offset_ns;
    if (c.drift != 0)
        wanted = c.since_ns + (int64_t)((double)(wanted - c.since_ns) / (1 + c.drift));
    if (wanted < 0)
        wanted = 0;
    return (struct timespec){wanted / SECOND, wanted % SECOND};
}

static struct timespec faked(struct timespec at)
{
    int64_t ns = shown(at.tv_sec * SECOND + at.tv_nsec);
    return (struct timespec){ns / SECOND, ns % SECOND};
}

static void *next(const char *name)
{
    /* without a version, dlsym may return the oldest one of pthread_cond_*, which has another layout */
    void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    return found ? found : dlsym(RTLD_NEXT, name);
}

__attribute__((constructor)) static void load(void)
{
    const char *path = getenv("AFTERSHOCK_CLOCK");
    real_gettime = next("clock_gettime");
    if (!path)
        return;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    void *page = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(struct control), PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) {
        perror(path);
        _exit(120);
    }
    close(file);
    control = page;
}

int clock_gettime(clockid_t id, struct timespec *at)
{
    int result = gettime(id, at);
    if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        *at = faked(*at);
    return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) /* zone is obsolete */
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *at = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *at, int base)
{
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, at) == 0 ? base : 0;
}

#define REAL(type, name, ...)                                                                                          \
    static type (*real)(__VA_ARGS__);                                                                                  \
    if (!real)                                                                                                         \
        real = next(name);

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
    REAL(int, "pthread_cond_timedwait", pthread_cond_t *, pthread_mutex_t *, const struct timespec *)
    struct timespec at = until->tv_sec > EPOCH_S ? real_of(until) : *until;
    return real(cond, mutex, &at);
}

int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t id, const struct timespec *until)
{
    REAL(int, "pthread_cond_clockwait", pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *)
    struct timespec at = id == CLOCK_REALTIME ? real_of(until) : *until;
    return real ? real(cond, mutex, id, &at) : ENOSYS;
}

int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until)
{
    REAL(int, "pthread_mutex_timedlock", pthread_mutex_t *, const struct timespec *)
    struct timespec at = real_of(until);
    return real(mutex, &at);
}

/* The waits of C11 threads, which librdkafka uses. In glibc they do not go through those above. The types are pointers,
 * because an older C library has no threads.h. */
int cnd_timedwait(void *cond, void *mutex, const struct timespec *until)
{
    REAL(int, "cnd_timedwait", void *, void *, const struct timespec *)
    struct timespec at = real_of(until);
    return real(cond, mutex, &at);
}

int mtx_timedlock(void *mutex, const struct timespec *until)
{
    REAL(int, "mtx_timedlock", void *, const struct timespec *)
    struct timespec at = real_of(until);
    return real(mutex, &at);
}

int sem_timedwait(sem_t *semaphore, const struct timespec *until)
{
    REAL(int, "sem_timedwait", sem_t *, const struct timespec *)
    struct timespec at = real_of(until);
    return real(semaphore, &at);
}

int sem_clockwait(sem_t *semaphore, clockid_t id, const struct timespec *until)
{
    REAL(int, "sem_clockwait", sem_t *, clockid_t, const struct timespec *)
    struct timespec at = id == CLOCK_REALTIME ? real_of(until) : *until;
    if (real)
        return real(semaphore, id, &at);
    errno = ENOSYS;
    return -1;
}

int clock_nanosleep(clockid_t id, int flags, const struct timespec *until, struct timespec *left)
{
    REAL(int, "clock_nanosleep", clockid_t, int, const struct timespec *, struct timespec *)
    struct timespec at = id == CLOCK_REALTIME && (flags & TIMER_ABSTIME) ? real_of(until) : *until;
    return real(id, flags, &at, left);
}
