package history

import "testing"

// encodeSteps writes a minute in only one form, the shortest one.
func TestStepsHaveOneForm(t *testing.T) {
	for text, steps := range map[string][]step{
		"":             nil,
		"0":            {{0, 1}},
		"0*3 12 599*2": {{0, 3}, {12, 1}, {599, 2}},
	} {
		if got := encodeSteps(steps); got != text {
			t.Errorf("%v: %q, want %q", steps, got, text)
		}
	}
}
