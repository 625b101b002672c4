/* Touches some pages of new memory, in order, and leaves out others: sparse GROUPS STRIDE TOGETHER.
 * There are GROUPS groups of STRIDE pages, and of each the first TOGETHER are filled. */
#include "check.h"

int main(int count, char **arguments)
{
    EXPECT(count == 4);
    size_t groups = strtoul(arguments[1], 0, 10), stride = strtoul(arguments[2], 0, 10);
    size_t together = strtoul(arguments[3], 0, 10);
    EXPECT(together <= stride);
    char *memory = map_pages(groups * stride);
    for (int is_over = 0; is_over < 2; is_over++) {
        for (size_t group = 0; group < groups; group++) {
            for (size_t page = 0; page < together; page++) {
                size_t number = group * stride + page;
                if (is_over)
                    verify(memory + number * PAGE, number, 1);
                else
                    fill(memory + number * PAGE, number, 1);
            }
        }
    }
    puts("right");
    return 0;
}
