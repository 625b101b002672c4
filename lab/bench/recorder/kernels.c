/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The programs whose recording is timed: one memory-bound loop and small kernels with the access
 * patterns of the SPLASH programs. Usage: kernels NAME [SCALE]. Each prints a checksum, so that a
 * recorded run can be seen to have computed the same as the native one.
 *
 *   triad      a[i] = a[i] + s * b[i] over two arrays, 512 MiB together: bound by memory, no reuse
 *              (100 passes)
 *   lu         blocked dense LU without pivoting, 16 x 16 blocks (SPLASH lu_cb)
 *   fft        radix-2 butterflies with power-of-two strides over 2^20 complex numbers (SPLASH fft)
 *   nbody      all pairs of 4000 bodies (SPLASH water-nsquared)
 *   ocean      red-black Gauss-Seidel over a 1026 x 1026 grid (SPLASH ocean)
 *   tree       inserts into and searches of a binary tree of 2^17 nodes (SPLASH barnes: pointers)
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *allocate(size_t bytes)
{
    void *p = malloc(bytes);
    if (!p) {
        fprintf(stderr, "kernels: cannot allocate %zu bytes\n", bytes);
        exit(1);
    }
    return p;
}

/* A small generator of repeatable numbers in [0, 1). */
static uint64_t seed = 42;
static double uniform(void)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (double)(seed >> 11) / 9007199254740992.0;
}

static double triad(int scale)
{
    size_t n = (size_t)256 * 1024 * 1024 / sizeof(double);
    double *a = allocate(n * sizeof *a), *b = allocate(n * sizeof *b), sum = 0;
    for (size_t i = 0; i < n; i++) {
        a[i] = 1;
        b[i] = 2;
    }
    for (int pass = 0; pass < 100 * scale; pass++)
        for (size_t i = 0; i < n; i++)
            a[i] = a[i] + 0.5 * b[i];
    for (size_t i = 0; i < n; i += n / 64)
        sum += a[i];
    return sum;
}

/* Blocked right-looking LU; the matrix is stored block by block. */
enum { BLOCK = 16 };
static void lu_diagonal(double *d)
{
    for (int k = 0; k < BLOCK; k++)
        for (int i = k + 1; i < BLOCK; i++) {
            d[i * BLOCK + k] /= d[k * BLOCK + k];
            for (int j = k + 1; j < BLOCK; j++)
                d[i * BLOCK + j] -= d[i * BLOCK + k] * d[k * BLOCK + j];
        }
}
static void lu_row(const double *d, double *b)
{
    for (int k = 0; k < BLOCK; k++)
        for (int i = k + 1; i < BLOCK; i++)
            for (int j = 0; j < BLOCK; j++)
                b[i * BLOCK + j] -= d[i * BLOCK + k] * b[k * BLOCK + j];
}
static void lu_column(const double *d, double *b)
{
    for (int i = 0; i < BLOCK; i++)
        for (int k = 0; k < BLOCK; k++) {
            b[i * BLOCK + k] /= d[k * BLOCK + k];
            for (int j = k + 1; j < BLOCK; j++)
                b[i * BLOCK + j] -= b[i * BLOCK + k] * d[k * BLOCK + j];
        }
}
static void lu_inner(const double *left, const double *top, double *b)
{
    for (int i = 0; i < BLOCK; i++)
        for (int k = 0; k < BLOCK; k++)
            for (int j = 0; j < BLOCK; j++)
                b[i * BLOCK + j] -= left[i * BLOCK + k] * top[k * BLOCK + j];
}
static double lu(int scale)
{
    int nb = 80 * scale, n = nb * BLOCK;
    double *m = allocate((size_t)n * n * sizeof *m), sum = 0;
    for (size_t i = 0; i < (size_t)n * n; i++)
        m[i] = uniform();
#define AT(i, j) (m + ((size_t)(i) * nb + (j)) * BLOCK * BLOCK)
    for (int i = 0; i < nb; i++)
        for (int r = 0; r < BLOCK; r++)
            AT(i, i)[r * BLOCK + r] += n;
    for (int k = 0; k < nb; k++) {
        lu_diagonal(AT(k, k));
        for (int j = k + 1; j < nb; j++) {
            lu_row(AT(k, k), AT(k, j));
            lu_column(AT(k, k), AT(j, k));
        }
        for (int i = k + 1; i < nb; i++)
            for (int j = k + 1; j < nb; j++)
                lu_inner(AT(i, k), AT(k, j), AT(i, j));
    }
    for (int i = 0; i < nb; i++)
        sum += AT(i, i)[0];
#undef AT
    return sum;
}

static double fft(int scale)
{
    size_t n = (size_t)1 << 20;
    double *re = allocate(n * sizeof *re), *im = allocate(n * sizeof *im), sum = 0;
    for (size_t i = 0; i < n; i++) {
        re[i] = uniform();
        im[i] = uniform();
    }
    for (int pass = 0; pass < 10 * scale; pass++)
        for (size_t half = n / 2; half >= 1; half /= 2) {
            double cr = cos(M_PI / (double)half), ci = -sin(M_PI / (double)half);
            for (size_t base = 0; base < n; base += 2 * half) {
                double wr = 1, wi = 0;
                for (size_t i = base; i < base + half; i++) {
                    double ar = re[i], ai = im[i], br = re[i + half], bi = im[i + half];
                    double dr = ar - br, di = ai - bi, t = wr;
                    re[i] = ar + br;
                    im[i] = ai + bi;
                    re[i + half] = dr * wr - di * wi;
                    im[i + half] = dr * wi + di * wr;
                    wr = wr * cr - wi * ci;
                    wi = t * ci + wi * cr;
                }
            }
        }
    for (size_t i = 0; i < n; i += n / 64)
        sum += re[i] + im[i];
    return sum;
}

static double nbody(int scale)
{
    struct body { double x[3], v[3], f[3], mass; };
    int n = 4000;
    struct body *b = allocate(n * sizeof *b);
    double sum = 0;
    memset(b, 0, n * sizeof *b);
    for (int i = 0; i < n; i++) {
        for (int d = 0; d < 3; d++)
            b[i].x[d] = uniform();
        b[i].mass = 1;
    }
    for (int step = 0; step < 8 * scale; step++) {
        for (int i = 0; i < n; i++)
            for (int j = i + 1; j < n; j++) {
                double dx[3], r2 = 1e-3;
                for (int d = 0; d < 3; d++) {
                    dx[d] = b[j].x[d] - b[i].x[d];
                    r2 += dx[d] * dx[d];
                }
                double g = b[i].mass * b[j].mass / (r2 * sqrt(r2));
                for (int d = 0; d < 3; d++) {
                    b[i].f[d] += g * dx[d];
                    b[j].f[d] -= g * dx[d];
                }
            }
        for (int i = 0; i < n; i++)
            for (int d = 0; d < 3; d++) {
                b[i].v[d] += 1e-9 * b[i].f[d];
                b[i].x[d] += b[i].v[d];
                b[i].f[d] = 0;
            }
    }
    for (int i = 0; i < n; i++)
        sum += b[i].x[0];
    return sum;
}

static double ocean(int scale)
{
    int n = 1026;
    double *g = allocate((size_t)n * n * sizeof *g), sum = 0;
    for (size_t i = 0; i < (size_t)n * n; i++)
        g[i] = uniform();
    for (int sweep = 0; sweep < 500 * scale; sweep++)
        for (int colour = 0; colour < 2; colour++)
            for (int i = 1; i < n - 1; i++)
                for (int j = 1 + (i + colour) % 2; j < n - 1; j += 2)
                    g[i * n + j] = 0.25 * (g[i * n + j - 1] + g[i * n + j + 1] + g[(i - 1) * n + j]
                                           + g[(i + 1) * n + j]);
    for (int i = 0; i < n; i++)
        sum += g[i * n + i];
    return sum;
}

static double tree(int scale)
{
    struct node { struct node *child[2]; uint64_t key; double value; };
    int n = 1 << 17;
    struct node *root = NULL;
    double sum = 0;
    for (int i = 0; i < n; i++) {
        struct node *leaf = allocate(sizeof *leaf), **at = &root;
        uniform();
        *leaf = (struct node){{NULL, NULL}, seed, 1.0};
        while (*at)
            at = &(*at)->child[leaf->key > (*at)->key];
        *at = leaf;
    }
    for (int i = 0; i < 8 * n * scale; i++) {
        uniform();
        for (struct node *at = root; at; at = at->child[seed > at->key])
            sum += at->value;
    }
    return sum;
}

int main(int argc, char **argv)
{
    static const struct { const char *name; double (*run)(int); } kernels[] = {
        {"triad", triad}, {"lu", lu}, {"fft", fft}, {"nbody", nbody}, {"ocean", ocean}, {"tree", tree},
    };
    int scale = argc > 2 ? atoi(argv[2]) : 1;
    for (size_t i = 0; argc > 1 && scale > 0 && i < sizeof kernels / sizeof *kernels; i++)
        if (!strcmp(argv[1], kernels[i].name)) {
            printf("%s %.10g\n", argv[1], kernels[i].run(scale));
            return 0;
        }
    fprintf(stderr, "usage: kernels triad|lu|fft|nbody|ocean|tree [SCALE]\n");
    return 2;
}
