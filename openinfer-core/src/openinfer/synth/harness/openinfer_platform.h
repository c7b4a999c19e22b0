/* What a program around a model needs of a machine: where memory lies, a clock, a log, and the weights. A model itself
   calls math.h and string.h only, and starts threads if it is written out with them.

   By default the C library is the machine. With OPENINFER_BARE_METAL defined there is neither an operating system nor
   a file: a board has the two functions that are declared below. Each macro may be defined beforehand. */

#ifndef OPENINFER_PLATFORM_H
#define OPENINFER_PLATFORM_H

#include <stddef.h>
#include <stdint.h>

#if defined(OPENINFER_BARE_METAL)
#include <string.h>
#else
#include <stdio.h>
#include <time.h>
#endif

/* The attribute of an array in a memory of the device file. On bare metal its section is .bss and that name, as in
   .bss.ccm, which a linker script can place, and which it places with other variables if it does not. */
#if !defined(OPENINFER_MEMORY)
#if defined(OPENINFER_BARE_METAL) && defined(__GNUC__)
#define OPENINFER_MEMORY(name) __attribute__((section(".bss." #name)))
#else
#define OPENINFER_MEMORY(name)
#endif
#endif

#if defined(OPENINFER_BARE_METAL)

/* A counter that goes up, of OPENINFER_TICKS_PER_SECOND; and where text goes, such as a serial line. */
uint64_t openinfer_board_ticks(void);
void openinfer_board_write(const char *text, size_t bytes);

#define OPENINFER_CLOCK "clock of the board"

#if !defined(OPENINFER_TICKS_PER_SECOND)
#define OPENINFER_TICKS_PER_SECOND 1
#endif

/* Where weights lie that are not part of the program, as in flash. */
#if !defined(OPENINFER_WEIGHTS_ADDRESS)
#define OPENINFER_WEIGHTS_ADDRESS NULL
#endif

static inline uint64_t openinfer_ticks(void) {
    return openinfer_board_ticks();
}

static inline void openinfer_log(const char *text) {
    openinfer_board_write(text, strlen(text));
}

static inline const void *openinfer_weights(const char *source, void *room, size_t bytes, const char **wrong) {
    const void *const weights = (const void *)OPENINFER_WEIGHTS_ADDRESS;
    (void)source;
    (void)room;
    (void)bytes;
    if (weights == NULL) {
        *wrong = "OPENINFER_WEIGHTS_ADDRESS is not defined";
    }
    return weights;
}

#else

/* Time that passes, where the C library has it: POSIX (with _POSIX_C_SOURCE 199309L in strict C99), C11. */
#if defined(CLOCK_MONOTONIC)
#define OPENINFER_CLOCK "wall clock"
#define OPENINFER_TICKS_PER_SECOND 1000000000

static inline uint64_t openinfer_ticks(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
#elif defined(TIME_UTC)
#define OPENINFER_CLOCK "wall clock"
#define OPENINFER_TICKS_PER_SECOND 1000000000

static inline uint64_t openinfer_ticks(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
#else
#define OPENINFER_CLOCK "time of the processor"
#define OPENINFER_TICKS_PER_SECOND CLOCKS_PER_SEC

static inline uint64_t openinfer_ticks(void) {
    return (uint64_t)clock();
}
#endif

/* Writes a text for the person who runs the program. */
static inline void openinfer_log(const char *text) {
    fputs(text, stderr);
}

/* Returns weights of so many bytes from a file, in ``room``; NULL, and in ``wrong`` why, where that cannot be. */
static inline const void *openinfer_weights(const char *source, void *room, size_t bytes, const char **wrong) {
    FILE *const file = fopen(source, "rb");
    size_t found;
    int more;
    if (file == NULL) {
        *wrong = "their file cannot be opened";
        return NULL;
    }
    found = fread(room, 1, bytes, file);
    more = fgetc(file) != EOF;
    fclose(file);
    if (found != bytes || more) {
        *wrong = "their file has another size than the one of this model";
        return NULL;
    }
    return room;
}

#endif

#if defined(OPENINFER_WITH_THREADS)

/* Threads: those of the operating system, unless a board has its own. These are three macros, all of which are defined
   beforehand:
   OPENINFER_THREAD                              the type of what a thread is known by
   OPENINFER_THREAD_START(thread, run, argument) whether a thread now calls void run(void *argument); *thread is set
   OPENINFER_THREAD_JOIN(thread)                 waits for its end
   Where there is none, or none is left, a task runs in line when it is started. */
#if defined(OPENINFER_THREAD)
#elif defined(OPENINFER_BARE_METAL)
#define OPENINFER_THREAD char
#define OPENINFER_THREAD_START(thread, run, argument) 0
#define OPENINFER_THREAD_JOIN(thread) (void)(thread)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L && !defined(__STDC_NO_THREADS__)
#include <threads.h>
#define OPENINFER_THREAD thrd_t
#define OPENINFER_THREAD_START(thread, run, argument) (thrd_create(thread, openinfer_thread, task) == thrd_success)
#define OPENINFER_THREAD_JOIN(thread) (void)thrd_join(*(thread), NULL)
#define OPENINFER_THREAD_RESULT int
#elif defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#define OPENINFER_THREAD pthread_t
#define OPENINFER_THREAD_START(thread, run, argument) (pthread_create(thread, NULL, openinfer_thread, task) == 0)
#define OPENINFER_THREAD_JOIN(thread) (void)pthread_join(*(thread), NULL)
#define OPENINFER_THREAD_RESULT void *
#else
#define OPENINFER_THREAD char
#define OPENINFER_THREAD_START(thread, run, argument) 0
#define OPENINFER_THREAD_JOIN(thread) (void)(thread)
#endif

struct openinfer_task {
    void (*run)(void *argument);
    void *argument;
    int is_running;
    OPENINFER_THREAD thread;
};

#if defined(OPENINFER_THREAD_RESULT)
static inline OPENINFER_THREAD_RESULT openinfer_thread(void *task) {
    ((struct openinfer_task *)task)->run(((struct openinfer_task *)task)->argument);
    return 0;
}
#endif

static inline void openinfer_start(struct openinfer_task *task, void (*run)(void *argument), void *argument) {
    task->run = run;
    task->argument = argument;
    task->is_running = OPENINFER_THREAD_START(&task->thread, run, argument);
    if (!task->is_running) {
        run(argument);
    }
}

static inline void openinfer_join(struct openinfer_task *task) {
    if (task->is_running) {
        OPENINFER_THREAD_JOIN(&task->thread);
        task->is_running = 0;
    }
}

#endif

#endif
