import static org.junit.Assert.*;
import org.junit.Test;

public class TillTest {
    @Test public void empty() {
        assertEquals(0, Till.total());
        assertEquals("mvnw", System.getProperty("started"));
    }
    @Test public void any() {
        assertTrue(Till.total(2) > 0);
    }
}
