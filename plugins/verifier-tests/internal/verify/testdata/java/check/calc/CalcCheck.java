package calc;

import org.junit.jupiter.api.*;

class CalcCheck {
    @Test
    void adds() throws Exception {
        String want = new String(getClass().getResourceAsStream("/sum.txt").readAllBytes()).trim();
        Assertions.assertEquals(want, "" + Calc.add(2, 3));
    }

    @Test
    void zero() {
        Same.same(0, Calc.add(0, 0));
    }
}
