/* Recognises a digit on a board without an operating system, and logs the logits of all ten. */

#include "digits/digits.h"
#include "digits/openinfer_platform.h"

static struct digits digits;
OPENINFER_MEMORY(ccm) DIGITS_ALIGNED static unsigned char arena_ccm[DIGITS_ARENA_CCM_BYTES];

static void log_number(const char *what, int64_t number) {
    char text[24];
    char *at = text + sizeof text;
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    *--at = '\0';
    *--at = '\n';
    do {
        *--at = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (number < 0) {
        *--at = '-';
    }
    openinfer_log(what);
    openinfer_log(at);
}

int main(void) {
    static float image[64], logits[10], probabilities[10];
    int64_t digit = -1;
    const struct digits_inputs inputs = {.v_image = image};
    const struct digits_outputs outputs = {.v_logits = logits, .v_probabilities = probabilities, .v_digit = &digit};
    enum digits_status status = digits_init(&digits, arena_ccm);
    uint64_t start;
    int at;
    for (at = 0; at < 64; ++at) {
        image[at] = (float)(at * 7 % 17);
    }
    start = openinfer_ticks();
    if (status == DIGITS_OK) {
        status = digits_step(&digits, &inputs, &outputs);
    }
    log_number("ticks ", (int64_t)(openinfer_ticks() - start));
    openinfer_log(digits_status_text(status));
    log_number("\ndigit ", digit);
    for (at = 0; at < 10; ++at) {
        log_number("thousandths ", (int64_t)(logits[at] * 1000.0f));
    }
    return status == DIGITS_OK ? 0 : 1;
}
