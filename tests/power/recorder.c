// Records what a program does to the files of one folder, in order: LD_PRELOAD=recorder.so RECORD_FOLDER=… RECORD_LOG=…
//
// A record is a head of four 64-bit numbers (kind, file, offset, length) and then `length` bytes: the path of a file that is opened or removed, the bytes that are written, or nothing. Everything written to standard output is recorded too, so that the order says what was on
// disk when the program told its caller. One lock around each call makes the order that of the calls. Syncs are recorded and not done.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OPENED = 1, CREATED, WRITTEN, CUT, SYNCED, TOLD, CLOSED, REMOVED };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_file = -1;
static char folder[4096];
static char is_watched[4096]; // by file descriptor

static void record(int64_t kind, int64_t file, int64_t offset, const void *bytes, int64_t length) {
    int64_t head[4] = {kind, file, offset, length};
    syscall(SYS_write, log_file, head, sizeof head);
    if (length > 0 && bytes) syscall(SYS_write, log_file, bytes, length);
}

__attribute__((constructor)) static void begin(void) {
    const char *watched = getenv("RECORD_FOLDER"), *path = getenv("RECORD_LOG");
    if (!watched || !path) return;
    strncpy(folder, watched, sizeof folder - 1);
    log_file = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int opened(int at, const char *path, int flags, mode_t mode) {
    if (log_file < 0 || strncmp(path, folder, strlen(folder)) != 0)
        return syscall(SYS_openat, at, path, flags, mode);
    pthread_mutex_lock(&lock);
    int is_new = (flags & O_CREAT) && access(path, F_OK) != 0;
    int file = syscall(SYS_openat, at, path, flags, mode);
    if (file >= 0 && file < (int)sizeof is_watched) {
        is_watched[file] = 1;
        record(is_new ? CREATED : OPENED, file, flags & O_TRUNC ? 1 : 0, path, strlen(path));
    }
    pthread_mutex_unlock(&lock);
    return file;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, int); va_end(rest); }

int open(const char *path, int flags, ...) { MODE(flags); return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags); return opened(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags); return opened(at, path, flags | O_LARGEFILE, mode); }

static int watched(int file) { return log_file >= 0 && file >= 0 && file < (int)sizeof is_watched && is_watched[file]; }

int close(int file) {
    if (!watched(file)) return syscall(SYS_close, file);
    pthread_mutex_lock(&lock);
    is_watched[file] = 0;
    record(CLOSED, file, 0, NULL, 0);
    int done = syscall(SYS_close, file);
    pthread_mutex_unlock(&lock);
    return done;
}

static ssize_t put(int file, const void *bytes, size_t length, off_t offset) {
    pthread_mutex_lock(&lock);
    ssize_t done = syscall(SYS_pwrite64, file, bytes, length, offset);
    if (done > 0) record(WRITTEN, file, offset, bytes, done);
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t pwrite(int file, const void *bytes, size_t length, off_t offset) {
    return watched(file) ? put(file, bytes, length, offset) : syscall(SYS_pwrite64, file, bytes, length, offset);
}
ssize_t pwrite64(int file, const void *bytes, size_t length, off_t offset) { return pwrite(file, bytes, length, offset); }

ssize_t write(int file, const void *bytes, size_t length) {
    if (log_file >= 0 && file == STDOUT_FILENO) {
        pthread_mutex_lock(&lock);
        ssize_t done = syscall(SYS_write, file, bytes, length);
        if (done > 0) record(TOLD, file, 0, bytes, done);
        pthread_mutex_unlock(&lock);
        return done;
    }
    if (watched(file)) return put(file, bytes, length, syscall(SYS_lseek, file, 0, SEEK_CUR));
    return syscall(SYS_write, file, bytes, length);
}

static int cut(int file, off_t length) {
    if (!watched(file)) return syscall(SYS_ftruncate, file, length);
    pthread_mutex_lock(&lock);
    int done = syscall(SYS_ftruncate, file, length);
    if (done == 0) record(CUT, file, length, NULL, 0);
    pthread_mutex_unlock(&lock);
    return done;
}
int ftruncate(int file, off_t length) { return cut(file, length); }
int ftruncate64(int file, off_t length) { return cut(file, length); }

int unlink(const char *path) {
    if (log_file < 0 || strncmp(path, folder, strlen(folder)) != 0) return syscall(SYS_unlink, path);
    pthread_mutex_lock(&lock);
    int done = syscall(SYS_unlink, path);
    if (done == 0) record(REMOVED, -1, 0, path, strlen(path));
    pthread_mutex_unlock(&lock);
    return done;
}

static int synced(int file) {
    if (!watched(file)) return syscall(SYS_fsync, file);
    pthread_mutex_lock(&lock);
    record(SYNCED, file, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    return 0;
}
int fsync(int file) { return synced(file); }
int fdatasync(int file) { return synced(file); }
