package strictjson_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"poold/internal/strictjson"
)

func TestObjectGivesFieldsInOrder(t *testing.T) {
	var got []string
	err := strictjson.Object([]byte(` {"a":"x","b":12345678901234567890.0,"c":true,"d":null} `), func(name string, value json.Token) error {
		got = append(got, fmt.Sprintf("%s=%v(%T)", name, value, value))
		return nil
	})
	want := "a=x(string) b=12345678901234567890.0(json.Number) c=true(bool) d=<nil>(<nil>)"
	if err != nil || strings.Join(got, " ") != want {
		t.Fatalf("got %v, %v; want %s", got, err, want)
	}
}

func TestObjectStopsAtAnErrorOfTheCaller(t *testing.T) {
	refused := errors.New("refused")
	for _, body := range []string{`{"a":1,"a":2}`, `{"a":[1]}`} {
		calls := 0
		err := strictjson.Object([]byte(body), func(string, json.Token) error { calls++; return refused })
		if !errors.Is(err, refused) || calls != 1 {
			t.Errorf("%s: got %v after %d calls", body, err, calls)
		}
	}
}

func TestFaultsAreNamed(t *testing.T) {
	object := func(body []byte) error {
		return strictjson.Object(body, func(string, json.Token) error { return nil })
	}
	const truncated, trailing, notObject = "ends inside", "must end with", "must be one JSON object"
	const twice, nested, syntax = "must be given once", "must be a single value", "is not JSON: look after byte "
	for _, tc := range []struct {
		read func([]byte) error
		body string
		want string
	}{
		{object, ``, truncated},
		{object, `{"a":1`, truncated},
		{object, `{"a":"x`, truncated},
		{object, `[]`, notObject},
		{object, `null`, notObject},
		{object, `{} {}`, trailing},
		{object, `{}x`, trailing},
		{object, `{"a":1,"a":2}`, twice},
		{object, `{"a":1,"A":2}`, twice},
		{object, `{"k":1,"\u212a":2}`, twice}, // the Kelvin sign equals k if case is ignored
		{object, `{"a":{}}`, nested},
		{object, `{"a":[1]}`, nested},
		{strictjson.Check, ``, truncated},
		{strictjson.Check, `[{"a":1},{"a":1}]`, ""},
		{strictjson.Check, `[{"b":{"a":1,"A":1}}]`, twice},
		{strictjson.Check, `1 2`, trailing},
		{strictjson.Check, strings.Repeat("[", 10000) + strings.Repeat("]", 10000), ""},
		{strictjson.Check, strings.Repeat("[", 1<<20), syntax + "10000"},
		{strictjson.Check, `{"secret":1,sesame}`, syntax + "12"},
		{strictjson.Check, `{"secret" 1}`, syntax + "10"},
		{strictjson.Check, `sesame`, syntax + "0"},
		{strictjson.Check, `{"a":sesame}`, syntax + "5"},
		{strictjson.Check, `{1:2}`, syntax + "1"},
		{strictjson.Check, `{"a":"\ud800\u2028", "b":"` + "\xff\u2028" + `"}`, ""},
	} {
		err := tc.read([]byte(tc.body))
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
	if got := string(strictjson.Encode(map[string]any{"a": 1.5, "b": "<"})); got != `{"a":1.5,"b":"\u003c"}` {
		t.Errorf("%s", got)
	}
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
