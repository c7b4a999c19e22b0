/* Reading and writing of .npy files whose element type and shape are known beforehand.

   The header is parsed within fixed bounds and has to say exactly what is expected; anything else is an error. Functions
   return NULL, or a text that says what is wrong. */

#ifndef OPENINFER_NPY_H
#define OPENINFER_NPY_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define NPY_LARGEST_HEADER 4096
#define NPY_LONGEST_SHOWN 60
#define NPY_MOST_AXES 64

/* An extent of a shape that any extent fits. */
#define NPY_ANY SIZE_MAX

/* The extents of the file whose header was read last, without steps. */
static size_t npy_extents[NPY_MOST_AXES];

/* Element type as NumPy spells it, bytes of an element, and the shape of one step. */
struct npy_type {
    const char *descr;
    size_t width;
    size_t count;
    size_t rank;
    const size_t *shape;
};

struct npy_cursor {
    const char *at;
    const char *end;
};

static inline void npy_skip(struct npy_cursor *cursor) {
    while (cursor->at < cursor->end && (*cursor->at == ' ' || *cursor->at == '\t')) {
        ++cursor->at;
    }
}

static inline int npy_take(struct npy_cursor *cursor, char wanted) {
    npy_skip(cursor);
    if (cursor->at >= cursor->end || *cursor->at != wanted) {
        return 0;
    }
    ++cursor->at;
    return 1;
}

/* Takes a quoted string of less than `size` characters. */
static inline int npy_string(struct npy_cursor *cursor, char *text, size_t size) {
    size_t length = 0;
    char quote;
    npy_skip(cursor);
    if (cursor->at >= cursor->end || (*cursor->at != '\'' && *cursor->at != '"')) {
        return 0;
    }
    quote = *cursor->at++;
    while (cursor->at < cursor->end && *cursor->at != quote) {
        if (length + 1 >= size || *cursor->at == '\\') {
            return 0;
        }
        text[length++] = *cursor->at++;
    }
    text[length] = '\0';
    return npy_take(cursor, quote);
}

static inline int npy_word(struct npy_cursor *cursor, const char *word) {
    const size_t length = strlen(word);
    npy_skip(cursor);
    if ((size_t)(cursor->end - cursor->at) < length || memcmp(cursor->at, word, length) != 0) {
        return 0;
    }
    cursor->at += length;
    return 1;
}

static inline int npy_number(struct npy_cursor *cursor, size_t *number) {
    npy_skip(cursor);
    if (cursor->at >= cursor->end || *cursor->at < '0' || *cursor->at > '9') {
        return 0;
    }
    *number = 0;
    while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9') {
        const size_t digit = (size_t)(*cursor->at++ - '0');
        if (*number > (SIZE_MAX - digit) / 10) {
            return 0;
        }
        *number = *number * 10 + digit;
    }
    return 1;
}

/* Writes the shape of `type`, with `steps` in front unless that is 0; cut where the room ends. */
static inline void npy_shape_text(char *text, size_t room, const struct npy_type *type, size_t steps) {
    const size_t leading = steps > 0 ? 1 : 0;
    size_t length = 1, axis;
    text[0] = '(';
    for (axis = 0; axis < type->rank + leading && length + 32 < room; ++axis) {
        const size_t extent = axis < leading ? steps : type->shape[axis - leading];
        const char *const between = axis > 0 ? ", " : "";
        const int written = extent == NPY_ANY
            ? snprintf(text + length, room - length, "%sany", between)
            : snprintf(text + length, room - length, "%s%lu", between, (unsigned long)extent);
        length += (size_t)written;
    }
    memcpy(text + length, type->rank + leading == 1 ? ",)" : ")", type->rank + leading == 1 ? 3 : 2);
}

/* Writes the shape that a file has, as `npy_shape_text` does; returns 0 where it is not one. Cut where the room ends. */
static inline int npy_found_text(char *text, size_t room, struct npy_cursor found) {
    size_t length = 1, axes = 0, extent;
    text[0] = '(';
    if (!npy_take(&found, '(')) {
        return 0;
    }
    while (!npy_take(&found, ')')) {
        if (!npy_number(&found, &extent)) {
            return 0;
        }
        if (length + 32 < room) {
            length += (size_t)snprintf(
                text + length, room - length, "%s%lu", axes > 0 ? ", " : "", (unsigned long)extent);
        }
        ++axes;
        if (!npy_take(&found, ',')) {
            if (!npy_take(&found, ')')) {
                return 0;
            }
            break;
        }
    }
    memcpy(text + length, axes == 1 ? ",)" : ")", axes == 1 ? 3 : 2);
    return 1;
}

/* Writes an element type as programs spell it, such as f32 for '<f4'; one that they do not have as NumPy does. */
static inline void npy_type_text(char *text, size_t room, const char *descr) {
    const int is_number = strlen(descr) == 3 && strchr("<>|=", descr[0]) != NULL && strchr("fiu", descr[1]) != NULL
        && strchr("1248", descr[2]) != NULL;
    if (strcmp(descr, "|b1") == 0) {
        snprintf(text, room, "bool");
    } else if (is_number) {
        snprintf(text, room, "%s%c%d", descr[0] == '>' ? "big-endian " : "", descr[1], 8 * (descr[2] - '0'));
    } else {
        snprintf(text, room, "'%.14s'", descr);
    }
}

/* Says what was found, up to the comma or with the closing parenthesis (`last`) that ends it, and what was expected. */
static inline const char *npy_other(
    const char *what, const struct npy_cursor *found, char last, const char *expected) {
    static char text[3 * NPY_LONGEST_SHOWN + 64];
    char shown[NPY_LONGEST_SHOWN + 1];
    size_t length = 0;
    const char *at = found->at;
    while (at < found->end && length < NPY_LONGEST_SHOWN && (length == 0 || shown[length - 1] != last)) {
        shown[length++] = *at >= ' ' && *at <= '~' ? *at : '?';
        ++at;
    }
    if (length > 0 && shown[length - 1] == ',') {
        --length;
    }
    shown[length] = '\0';
    snprintf(text, sizeof text, "its %s is %.60s, expected %.110s", what, shown, expected);
    return text;
}

/* Takes a shape, which must be that of `type`, with `steps` in front unless that is 0. */
static inline int npy_shape(struct npy_cursor *cursor, const struct npy_type *type, size_t steps) {
    const size_t leading = steps > 0 ? 1 : 0;
    size_t axis;
    if (!npy_take(cursor, '(')) {
        return 0;
    }
    for (axis = 0; axis < type->rank + leading; ++axis) {
        const size_t wanted = axis < leading ? steps : type->shape[axis - leading];
        size_t extent;
        if (!npy_number(cursor, &extent) || (extent != wanted && wanted != NPY_ANY)) {
            return 0;
        }
        if (axis >= leading && axis - leading < NPY_MOST_AXES) {
            npy_extents[axis - leading] = extent;
        }
        if (!npy_take(cursor, ',')) {
            ++axis;
            break;
        }
    }
    return axis == type->rank + leading && npy_take(cursor, ')');
}

static inline const char *npy_value(
    struct npy_cursor *cursor, const char *key, const struct npy_type *type, size_t steps, unsigned *seen) {
    struct npy_cursor found;
    char expected[NPY_LONGEST_SHOWN + 50], given[NPY_LONGEST_SHOWN + 1], descr[16];
    npy_skip(cursor);
    found = *cursor;
    if (strcmp(key, "descr") == 0) {
        *seen |= 1u;
        npy_type_text(expected, sizeof expected, type->descr);
        if (npy_string(cursor, descr, sizeof descr)) {
            if (strcmp(descr, type->descr) == 0) {
                return NULL;
            }
            npy_type_text(given, sizeof given, descr);
            found.at = given;
            found.end = given + strlen(given);
        }
        return npy_other("element type", &found, ',', expected);
    }
    if (strcmp(key, "fortran_order") == 0) {
        *seen |= 2u;
        return npy_word(cursor, "False") ? NULL : "it is not in C order (save a contiguous array)";
    }
    if (strcmp(key, "shape") == 0) {
        *seen |= 4u;
        npy_shape_text(expected, sizeof expected, type, steps);
        if (npy_shape(cursor, type, steps)) {
            return NULL;
        }
        if (npy_found_text(given, sizeof given, found)) {
            found.at = given;
            found.end = given + strlen(given);
        }
        return npy_other("shape", &found, ')', expected);
    }
    return "its header has an unknown key";
}

static inline const char *npy_check_dictionary(
    struct npy_cursor *cursor, const struct npy_type *type, size_t steps) {
    unsigned seen = 0;
    if (!npy_take(cursor, '{')) {
        return "its header is not a dictionary";
    }
    while (!npy_take(cursor, '}')) {
        char key[32];
        const unsigned before = seen;
        const char *wrong;
        if (!npy_string(cursor, key, sizeof key) || !npy_take(cursor, ':')) {
            return "its header is damaged";
        }
        wrong = npy_value(cursor, key, type, steps, &seen);
        if (wrong != NULL) {
            return wrong;
        }
        if (seen == before) {
            return "its header has a key twice";
        }
        if (!npy_take(cursor, ',')) {
            if (!npy_take(cursor, '}')) {
                return "its header is damaged";
            }
            break;
        }
    }
    return seen == 7u ? NULL : "its header has a key missing";
}

/* Reads the header of a file; the data come next. */
static inline const char *npy_read_header(FILE *file, const struct npy_type *type, size_t steps) {
    static char text[NPY_LARGEST_HEADER];
    unsigned char head[12];
    struct npy_cursor cursor;
    const char *wrong;
    size_t length;
    if (fread(head, 1, 10, file) != 10 || memcmp(head, "\x93NUMPY", 6) != 0) {
        return "it is not a .npy file";
    }
    if (head[6] < 1 || head[6] > 3 || head[7] != 0) {
        return "it has an unknown version of the format";
    }
    length = (size_t)head[8] | (size_t)head[9] << 8;
    if (head[6] > 1) {
        if (fread(head + 10, 1, 2, file) != 2) {
            return "it ends inside its header";
        }
        length |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
    }
    if (length > sizeof text) {
        return "its header is too long";
    }
    if (fread(text, 1, length, file) != length) {
        return "it ends inside its header";
    }
    cursor.at = text;
    cursor.end = text + length;
    wrong = npy_check_dictionary(&cursor, type, steps);
    if (wrong != NULL) {
        return wrong;
    }
    while (cursor.at < cursor.end && (*cursor.at == ' ' || *cursor.at == '\n')) {
        ++cursor.at;
    }
    return cursor.at == cursor.end ? NULL : "its header is followed by something else";
}

/* Files are little-endian: turns the bytes of each element round on other machines. */
static inline void npy_to_host(void *data, size_t count, size_t width) {
    const uint16_t probe = 1;
    unsigned char *bytes = data;
    size_t element, place;
    if (*(const unsigned char *)&probe == 1) {
        return;
    }
    for (element = 0; element < count; ++element) {
        for (place = 0; place < width / 2; ++place) {
            unsigned char *const low = bytes + element * width + place;
            unsigned char *const high = bytes + (element + 1) * width - 1 - place;
            const unsigned char held = *low;
            *low = *high;
            *high = held;
        }
    }
}

/* Reads the elements of one step. */
static inline const char *npy_read(FILE *file, const struct npy_type *type, void *data) {
    const unsigned char *const bytes = data;
    size_t place;
    if (fread(data, type->width, type->count, file) != type->count) {
        return "it ends inside its data";
    }
    if (strcmp(type->descr, "|b1") == 0) {
        for (place = 0; place < type->count; ++place) {
            if (bytes[place] > 1) {
                return "it holds a bool that is neither 0 nor 1";
            }
        }
    }
    npy_to_host(data, type->count, type->width);
    return NULL;
}

/* Checks that nothing follows the data. */
static inline const char *npy_read_end(FILE *file) {
    return fgetc(file) == EOF ? NULL : "its data are followed by something else";
}

static inline const char *npy_write_header(FILE *file, const struct npy_type *type, size_t steps) {
    static char text[NPY_LARGEST_HEADER];
    unsigned char head[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 0, 0};
    const size_t leading = steps > 0 ? 1 : 0;
    size_t length, padded, axis;
    int written = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (", type->descr);
    length = (size_t)written;
    for (axis = 0; axis < type->rank + leading; ++axis) {
        const size_t extent = axis < leading ? steps : type->shape[axis - leading];
        if (length + 32 > sizeof text) {
            return "it has too many axes";
        }
        written = snprintf(text + length, sizeof text - length, "%lu,", (unsigned long)extent);
        length += (size_t)written;
    }
    padded = (sizeof head + length + 4 + 63) / 64 * 64 - sizeof head;
    if (padded > sizeof text) {
        return "it has too many axes";
    }
    memcpy(text + length, "), }", 4);
    memset(text + length + 4, ' ', padded - length - 4);
    text[padded - 1] = '\n';
    head[8] = (unsigned char)(padded & 255);
    head[9] = (unsigned char)(padded >> 8);
    if (fwrite(head, 1, sizeof head, file) != sizeof head || fwrite(text, 1, padded, file) != padded) {
        return "it cannot be written";
    }
    return NULL;
}

/* Writes the elements of one step. */
static inline const char *npy_write(FILE *file, const struct npy_type *type, void *data) {
    size_t written;
    npy_to_host(data, type->count, type->width);
    written = fwrite(data, type->width, type->count, file);
    npy_to_host(data, type->count, type->width);
    return written == type->count ? NULL : "it cannot be written";
}

#endif
