package till

import "testing"

func TestEmpty(t *testing.T) {
	if Total(nil) != 0 {
		t.Fatal(Total(nil))
	}
}
func TestAny(t *testing.T) {}
