package kernel

import (
	"net/http"
	"strings"
	"testing"
)

// A request keeps a valid id. For another one it gets a random id.
func TestRequestID(t *testing.T) {
	for given, keeps := range map[string]bool{
		"a": true, "Az09._-": true, strings.Repeat("x", 64): true,
		"": false, strings.Repeat("x", 65): false, "a b": false, "a\n": false, "ü": false, "a/b": false,
	} {
		r := &http.Request{Header: http.Header{"X-Request-Id": {given}}}
		if got := RequestID(r); (got == given) != keeps || !isRequestID(got) {
			t.Errorf("%q: %q", given, got)
		}
	}
	twice := &http.Request{Header: http.Header{"X-Request-Id": {"a", "b"}}}
	if first, second := RequestID(twice), RequestID(twice); first == second || first == "a" {
		t.Errorf("two values: %q, %q", first, second)
	}
}
