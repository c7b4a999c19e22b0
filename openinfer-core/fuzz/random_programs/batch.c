/* Runs programs on the inputs of a job and writes what they make of them: `batch JOB RESULTS FIRST`.

   A job has for each program its number, its counts of steps, inputs and outputs, the bytes of each output, and for each
   step the bytes of each input (-1: left out) with its content. Results have for each step the number of the program,
   that of the step, its status, and the content of the outputs; they are written before the next step begins. */

#include "batch.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_PORTS 512

static int64_t number(FILE *job) {
    int64_t value = 0;
    if (fread(&value, sizeof value, 1, job) != 1) {
        exit(feof(job) ? 0 : 3);
    }
    return value;
}

/* Memory of its own for each port, so that the address sanitiser sees where it ends. */
static void *content(FILE *job, int64_t size) {
    unsigned char *data = NULL;
    if (size < 0) {
        return NULL;
    }
    data = malloc(size > 0 ? (size_t)size : 1u);
    if (data == NULL || (size > 0 && fread(data, (size_t)size, 1, job) != 1)) {
        exit(3);
    }
    return data;
}

static void step(FILE *job, FILE *results, int64_t program, int64_t turn, int64_t inputs, int64_t outputs,
                 const int64_t *sizes, int skip) {
    void *given[MOST_PORTS + 1] = {NULL};
    void *made[MOST_PORTS + 1] = {NULL};
    int64_t head[3] = {program, turn, 0};
    for (int64_t i = 0; i < inputs; ++i) {
        given[i] = content(job, number(job));
    }
    for (int64_t i = 0; i < outputs; ++i) {
        made[i] = malloc(sizes[i] > 0 ? (size_t)sizes[i] : 1u);
        if (made[i] == NULL) {
            exit(3);
        }
        memset(made[i], 0xa5, sizes[i] > 0 ? (size_t)sizes[i] : 1u);
    }
    if (!skip) {
        head[2] = programs[program](given, made);
        fwrite(head, sizeof head, 1, results);
        for (int64_t i = 0; i < outputs; ++i) {
            fwrite(made[i], 1, (size_t)sizes[i], results);
        }
        fflush(results);
    }
    for (int64_t i = 0; i < inputs; ++i) {
        free(given[i]);
    }
    for (int64_t i = 0; i < outputs; ++i) {
        free(made[i]);
    }
}

int main(int count, char **arguments) {
    FILE *job = count == 4 ? fopen(arguments[1], "rb") : NULL;
    FILE *results = count == 4 ? fopen(arguments[2], "ab") : NULL;
    const int64_t first = count == 4 ? atoll(arguments[3]) : 0;
    int64_t sizes[MOST_PORTS];
    if (job == NULL || results == NULL) {
        return 3;
    }
    for (;;) {
        const int64_t program = number(job);
        const int64_t steps = number(job), inputs = number(job), outputs = number(job);
        if (inputs > MOST_PORTS || outputs > MOST_PORTS) {
            return 3;
        }
        for (int64_t i = 0; i < outputs; ++i) {
            sizes[i] = number(job);
        }
        for (int64_t turn = 0; turn < steps; ++turn) {
            step(job, results, program, turn, inputs, outputs, sizes, program < first);
        }
    }
}
