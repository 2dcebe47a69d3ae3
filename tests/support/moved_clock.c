/* Preloaded into a process, moves its wall clock by the seconds in a file that MOVED_CLOCK names. Monotonic clocks,
   by which threads wait, stay as they are; libfaketime 0.9.10 has every timed wait of a JVM end at once. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *moved_s;

__attribute__((constructor)) static void open_file(void) {
  const char *path = getenv("MOVED_CLOCK");
  int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  void *region = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *moved_s, PROT_READ, MAP_SHARED, file, 0);
  moved_s = region == MAP_FAILED ? NULL : region;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && moved_s != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    now->tv_sec += *moved_s;
  return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec precise;
  (void)zone;
  int result = clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return result;
}

time_t time(time_t *result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result != NULL)
    *result = now.tv_sec;
  return now.tv_sec;
}
