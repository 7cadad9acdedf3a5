package calc;

class Same {
    static void same(int a, int b) {
        if (a != b) {
            throw new AssertionError(a + " " + b);
        }
    }
}
