package strictjson_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"poold/internal/strictjson"
	"poold/internal/testkit"
)

func TestFaultsAreNamed(t *testing.T) {
	const truncated, trailing = "ends inside", "must end with"
	const twice, syntax = "must be given once", "is not JSON: look after byte "
	for _, tc := range []struct {
		body string
		want string
	}{
		{`{"a":1`, truncated},
		{`{"a":"x`, truncated},
		{`{} {}`, trailing},
		{`{}x`, trailing},
		{`{"a":1,"a":2}`, twice},
		{`{"a":1,"A":2}`, twice},
		{`{"k":1,"\u212a":2}`, twice}, // the Kelvin sign equals k if case is ignored
		{``, truncated},
		{`[{"a":1},{"a":1}]`, ""},
		{`[{"b":{"a":1,"A":1}}]`, twice},
		{`1 2`, trailing},
		{strings.Repeat("[", 10000) + strings.Repeat("]", 10000), ""},
		{strings.Repeat("[", 1<<20), syntax + "10000"},
		{`{"secret":1,sesame}`, syntax + "12"},
		{`{"secret" 1}`, syntax + "10"},
		{`sesame`, syntax + "0"},
		{`{"a":sesame}`, syntax + "5"},
		{`{1:2}`, syntax + "1"},
		{`{"a":"\ud800\u2028", "b":"` + "\xff\u2028" + `"}`, ""},
	} {
		err := strictjson.Check([]byte(tc.body))
		if tc.want == "" && err == nil {
			continue
		}
		if tc.want == "" || err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%.40s: got %v, want %q", tc.body, err, tc.want)
		}
	}
}

// If a value has no JSON form, Encode panics with the cause and does not return an empty text.
func TestEncodeRefusesValuesWithoutAJSONForm(t *testing.T) {
	testkit.Equal(t, "encoded", string(strictjson.Encode(map[string]any{"a": 1.5, "b": "<"})), `{"a":1.5,"b":"\u003c"}`)
	for _, v := range []any{math.NaN(), map[string]any{"a": make(chan int)}} {
		func() {
			defer func() {
				err, _ := recover().(error)
				value, kind := (*json.UnsupportedValueError)(nil), (*json.UnsupportedTypeError)(nil)
				if !errors.As(err, &value) && !errors.As(err, &kind) {
					t.Errorf("%v: %v", v, err)
				}
			}()
			t.Errorf("%s", strictjson.Encode(v))
		}()
	}
}
