/* Symmetric successive over-relaxation of five coupled equations on a cube, with blocks of 5 x 5:
 * the structure of the CLOCK-Pro paper's program applu (SPEC 95, after the NAS benchmark LU). A
 * step works out the residual along the three axes, then sweeps up and down through the planes;
 * each sweep makes the blocks of one plane at a time. 14.5 MB as there.
 * Usage: applu N STEPS */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { EQUATIONS = 5, BLOCK = EQUATIONS * EQUATIONS };

static size_t n;
static double *u, *residual, *forcing, *blocks[4];

static inline size_t point(size_t k, size_t j, size_t i)
{
    return ((k * n + j) * n + i) * EQUATIONS;
}

static void work_out_residual(void)
{
    const size_t strides[3] = {EQUATIONS, n * EQUATIONS, n * n * EQUATIONS};
    for (size_t at = 0; at < n * n * n * EQUATIONS; at++)
        residual[at] = -forcing[at];
    /* One pass an axis, as the original has it. */
    for (int axis = 0; axis < 3; axis++)
        for (size_t k = 1; k + 1 < n; k++)
            for (size_t j = 1; j + 1 < n; j++)
                for (size_t i = 1; i + 1 < n; i++) {
                    size_t at = point(k, j, i);
                    for (int m = 0; m < EQUATIONS; m++, at++) {
                        double second = u[at - strides[axis]] - 2.0 * u[at] + u[at + strides[axis]];
                        double coupled = 0.01 * u[at] * (m > 0 ? u[at - 1] : u[at]);
                        residual[at] += second - coupled;
                    }
                }
}

/* The blocks of a plane: the diagonal one, and those towards the neighbours. */
static void make_blocks(size_t k)
{
    for (size_t j = 1; j + 1 < n; j++)
        for (size_t i = 1; i + 1 < n; i++) {
            const double *here = &u[point(k, j, i)];
            double *block[4];
            for (int which = 0; which < 4; which++)
                block[which] = &blocks[which][(j * n + i) * BLOCK];
            for (int row = 0; row < EQUATIONS; row++)
                for (int column = 0; column < EQUATIONS; column++) {
                    double coupling = 0.002 * here[row] * here[column];
                    block[0][row * EQUATIONS + column] = (row == column ? 8.0 : 0.0) + coupling;
                    for (int which = 1; which < 4; which++)
                        block[which][row * EQUATIONS + column] = (row == column ? -1.0 : 0.0) + 0.1 * coupling;
                }
        }
}

/* Solves block * x = right by elimination; the diagonal dominates, so no pivots. */
static void solve_block(const double *block, double *right)
{
    double a[BLOCK];
    for (int at = 0; at < BLOCK; at++)
        a[at] = block[at];
    for (int p = 0; p < EQUATIONS; p++)
        for (int row = p + 1; row < EQUATIONS; row++) {
            double factor = a[row * EQUATIONS + p] / a[p * EQUATIONS + p];
            for (int column = p; column < EQUATIONS; column++)
                a[row * EQUATIONS + column] -= factor * a[p * EQUATIONS + column];
            right[row] -= factor * right[p];
        }
    for (int p = EQUATIONS; p-- > 0;) {
        for (int column = p + 1; column < EQUATIONS; column++)
            right[p] -= a[p * EQUATIONS + column] * right[column];
        right[p] /= a[p * EQUATIONS + p];
    }
}

static void sweep_point(size_t k, size_t j, size_t i, int up)
{
    const double omega = 1.2;
    size_t at = point(k, j, i), block = (j * n + i) * BLOCK;
    size_t before[3] = {up ? point(k - 1, j, i) : point(k + 1, j, i), up ? point(k, j - 1, i) : point(k, j + 1, i),
                        up ? point(k, j, i - 1) : point(k, j, i + 1)};
    double right[EQUATIONS];
    for (int row = 0; row < EQUATIONS; row++) {
        double sum = 0.0;
        for (int which = 0; which < 3; which++)
            for (int column = 0; column < EQUATIONS; column++)
                sum += blocks[which + 1][block + row * EQUATIONS + column] * residual[before[which] + column];
        right[row] = residual[at + row] - omega * sum;
    }
    solve_block(&blocks[0][block], right);
    for (int row = 0; row < EQUATIONS; row++)
        residual[at + row] = right[row];
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: applu N STEPS\n");
        return 2;
    }
    n = strtoul(argv[1], NULL, 10);
    int steps = atoi(argv[2]);
    size_t points = n * n * n * EQUATIONS;
    u = malloc(points * sizeof *u);
    residual = malloc(points * sizeof *u);
    forcing = malloc(points * sizeof *u);
    int is_there = n >= 3 && u && residual && forcing;
    for (int which = 0; which < 4; which++)
        is_there &= (blocks[which] = malloc(n * n * BLOCK * sizeof *u)) != NULL;
    if (!is_there) {
        fprintf(stderr, "applu: no cube of this size\n");
        return 2;
    }
    for (size_t k = 0; k < n; k++)
        for (size_t j = 0; j < n; j++)
            for (size_t i = 0; i < n; i++)
                for (int m = 0; m < EQUATIONS; m++) {
                    u[point(k, j, i) + m] = 1.0 + 0.1 * m + 0.001 * (i + 2 * j + 3 * k);
                    forcing[point(k, j, i) + m] = 0.01 * (m + 1);
                }
    double norm = 0.0;
    for (int step = 0; step < steps; step++) {
        work_out_residual();
        for (size_t k = 1; k + 1 < n; k++) {
            make_blocks(k);
            for (size_t j = 1; j + 1 < n; j++)
                for (size_t i = 1; i + 1 < n; i++)
                    sweep_point(k, j, i, 1);
        }
        for (size_t k = n - 1; k-- > 1;) {
            make_blocks(k);
            for (size_t j = n - 1; j-- > 1;)
                for (size_t i = n - 1; i-- > 1;)
                    sweep_point(k, j, i, 0);
        }
        norm = 0.0;
        for (size_t at = 0; at < points; at++) {
            u[at] += 0.1 * residual[at];
            norm += residual[at] * residual[at];
        }
    }
    printf("%.9e\n", sqrt(norm / points));
    return !isfinite(norm);
}
