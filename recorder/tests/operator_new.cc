// SPDX-License-Identifier: GPL-2.0-or-later
// The forms of operator new, one large block at a time.
#include <new>

struct alignas(64) Line { char bytes[64]; };
static void *volatile keep; // so that the compiler cannot leave the pairs out

int main()
{
    char *a = new char[50000];
    keep = a;
    delete[] a;
    void *b = operator new(60000, std::nothrow);
    keep = b;
    operator delete(b);
    void *c = operator new(70000, std::align_val_t(256));
    keep = c;
    operator delete(c, std::align_val_t(256));
    Line *d = new Line[1250];
    keep = d;
    delete[] d;
    try {
        keep = new char[static_cast<unsigned long>(1) << 60]; // throws: no object
    } catch (const std::bad_alloc &) {
    }
}
