import static org.junit.Assert.*;
import org.junit.Test;

public class WebTest {
    @Test public void some() {
        assertTrue(Till.any() > 0);
    }
}
