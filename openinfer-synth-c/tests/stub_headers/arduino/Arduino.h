/* Declarations of Arduino that sketches use, to compile them without it. */
#include <stddef.h>
#include <stdint.h>

class Serial_ {
public:
    void begin(unsigned long baud);
    size_t print(const char *text);
};

extern Serial_ Serial;

void setup(void);
void loop(void);
