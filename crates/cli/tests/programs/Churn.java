/* Reads and writes over more memory than there is, with a collector that moves what it keeps:
 * Churn MIB ROUNDS. */
public final class Churn {
    private static final int WORDS = 512;

    private static long word(long page, long version, long index) {
        long mixed = page * 0x9e3779b97f4a7c15L + version * 0xbf58476d1ce4e5b9L + index + 1;
        mixed ^= mixed >>> 31;
        return mixed * 0x94d049bb133111ebL;
    }

    private static long[] made(int page, int version) {
        long[] words = new long[WORDS];
        for (int index = 0; index < WORDS; index++) words[index] = word(page, version, index);
        return words;
    }

    private static void verify(long[] words, int page, int version) {
        for (int index = 0; index < WORDS; index++) {
            if (words[index] != word(page, version, index)) {
                System.out.println("page " + page + " version " + version + " word " + index + ": " + words[index]);
                System.exit(3);
            }
        }
    }

    public static void main(String[] arguments) {
        int pages = Integer.parseInt(arguments[0]) * 256;
        int rounds = Integer.parseInt(arguments[1]);
        long[][] memory = new long[pages][];
        int[] versions = new int[pages];
        for (int page = 0; page < pages; page++) memory[page] = made(page, 0);
        for (int round = 0; round < rounds; round++) {
            for (int step = 0; step < pages; step++) {
                int page = round % 2 == 0 ? step : (int) (step * 7919L % pages);
                verify(memory[page], page, versions[page]);
                if (step % 4 == 0) memory[page] = made(page, ++versions[page]);
            }
        }
        for (int page = 0; page < pages; page++) verify(memory[page], page, versions[page]);
        System.out.println("right");
    }
}
