/* An interpreter of a small processor with 32 registers, in the manner of the CLOCK-Pro paper's
 * program m88ksim (SPEC 95, a simulator of the 88100): it fetches, decodes and runs instructions
 * from a simulated memory that is allocated page by page when it is first used, through a table of
 * pages. The program that it runs is a test of a data cache, as the original's input is: it stores
 * and loads at addresses that look random, in areas that grow to the whole memory and shrink
 * again, with a loop of arithmetic between them.
 * Usage: m88k KIB ACCESSES */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ADD, ADDI, SUB, MUL, AND, SHR, XOR, LOAD, STORE, BNZ, HALT };
enum { PAGE = 4096, CODE = 0, DATA = 1 << 20 };

typedef struct {
    uint8_t opcode, to, one, other;
    int32_t immediate;
} Instruction;

static uint8_t **pages;
static size_t page_count;
static uint64_t counts[HALT + 1];

static uint8_t *address(uint32_t simulated)
{
    size_t page = simulated / PAGE;
    if (page >= page_count) {
        fprintf(stderr, "m88k: address %u is outside the simulated memory\n", simulated);
        exit(1);
    }
    if (!pages[page] && !(pages[page] = calloc(1, PAGE)))
        exit(2);
    return pages[page] + simulated % PAGE;
}

static uint32_t assemble(uint32_t at, Instruction instruction)
{
    *(Instruction *)address(at) = instruction;
    return at + sizeof instruction;
}

static uint32_t run(uint32_t *r)
{
    for (uint32_t pc = CODE;;) {
        const Instruction *i = (const Instruction *)address(pc);
        pc += sizeof *i;
        counts[i->opcode]++;
        switch (i->opcode) {
        case ADD: r[i->to] = r[i->one] + r[i->other]; break;
        case ADDI: r[i->to] = r[i->one] + i->immediate; break;
        case SUB: r[i->to] = r[i->one] - r[i->other]; break;
        case MUL: r[i->to] = r[i->one] * r[i->other]; break;
        case AND: r[i->to] = r[i->one] & r[i->other]; break;
        case SHR: r[i->to] = r[i->one] >> i->immediate; break;
        case XOR: r[i->to] = r[i->one] ^ r[i->other]; break;
        case LOAD: r[i->to] = *(uint32_t *)address(r[i->one] + i->immediate); break;
        case STORE: *(uint32_t *)address(r[i->one] + i->immediate) = r[i->to]; break;
        case BNZ:
            if (r[i->one])
                pc += i->immediate;
            break;
        default: return r[1];
        }
        r[0] = 0;
    }
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: m88k KIB ACCESSES\n");
        return 2;
    }
    uint32_t bytes = (uint32_t)strtoul(argv[1], NULL, 10) * 1024, accesses = (uint32_t)strtoul(argv[2], NULL, 10);
    page_count = (DATA + (size_t)bytes) / PAGE;
    pages = calloc(page_count, sizeof *pages);
    if (!pages || bytes < 1 << 20)
        return 2;
    /* r1 sum, r2 state of the random numbers, r3 accesses left, r4 the address, r5 to r7 for the
     * address, r8 rounds of arithmetic, r9 size of the area, r10 its first byte. */
    const int32_t back = -(int32_t)sizeof(Instruction);
    uint32_t at = CODE;
    at = assemble(at, (Instruction){MUL, 2, 2, 11, 0});        /* the next random number */
    at = assemble(at, (Instruction){ADD, 2, 2, 12, 0});
    at = assemble(at, (Instruction){SHR, 5, 2, 0, 12});        /* 20 bits of it, */
    at = assemble(at, (Instruction){SHR, 6, 9, 0, 10});        /* times the area's KiB */
    at = assemble(at, (Instruction){AND, 5, 5, 13, 0});
    at = assemble(at, (Instruction){MUL, 5, 5, 6, 0});
    at = assemble(at, (Instruction){SHR, 5, 5, 0, 6});  /* over 16 bits: a place in the area */
    at = assemble(at, (Instruction){AND, 5, 5, 14, 0});
    at = assemble(at, (Instruction){ADD, 4, 5, 10, 0});
    at = assemble(at, (Instruction){LOAD, 7, 4, 0, 0});
    at = assemble(at, (Instruction){ADD, 1, 1, 7, 0});
    at = assemble(at, (Instruction){STORE, 2, 4, 0, 0});
    at = assemble(at, (Instruction){ADDI, 8, 0, 0, 10});       /* arithmetic */
    at = assemble(at, (Instruction){XOR, 1, 1, 2, 0});
    at = assemble(at, (Instruction){ADDI, 8, 8, 0, -1});
    at = assemble(at, (Instruction){BNZ, 0, 8, 0, 3 * back});
    at = assemble(at, (Instruction){ADDI, 3, 3, 0, -1});
    at = assemble(at, (Instruction){BNZ, 0, 3, 0, 18 * back});
    assemble(at, (Instruction){HALT, 0, 0, 0, 0});

    /* The areas, in sixteenths of the memory: a phase of the test each. */
    static const uint32_t areas[] = {1, 2, 4, 6, 8, 10, 12, 16, 12, 8, 6, 4, 2, 1};
    const uint32_t phases = sizeof areas / sizeof *areas;
    uint32_t r[32] = {0};
    r[2] = 88100, r[11] = 1664525, r[12] = 1013904223, r[13] = 0xffff, r[14] = ~3u, r[10] = DATA;
    for (uint32_t phase = 0; phase < phases; phase++) {
        r[9] = bytes / 16 * areas[phase];
        r[3] = accesses / phases;
        run(r);
    }
    printf("%u", r[1]);
    for (int opcode = 0; opcode <= HALT; opcode++)
        printf(" %llu", (unsigned long long)counts[opcode]);
    printf("\n");
    return 0;
}
