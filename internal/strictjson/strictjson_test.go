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
	for _, tc := range []struct {
		read func([]byte) error
		body string
		want error
	}{
		{object, ``, strictjson.ErrTruncated},
		{object, `{"a":1`, strictjson.ErrTruncated},
		{object, `{"a":"x`, strictjson.ErrTruncated},
		{object, `[]`, strictjson.ErrNotObject},
		{object, `null`, strictjson.ErrNotObject},
		{object, `{} {}`, strictjson.ErrTrailing},
		{object, `{}x`, strictjson.ErrTrailing},
		{object, `{"a":1,"a":2}`, strictjson.ErrDuplicate},
		{object, `{"a":1,"A":2}`, strictjson.ErrDuplicate},
		{object, `{"k":1,"\u212a":2}`, strictjson.ErrDuplicate}, // the Kelvin sign equals k if case is ignored
		{object, `{"a":{}}`, strictjson.ErrNested},
		{object, `{"a":[1]}`, strictjson.ErrNested},
		{strictjson.Check, ``, strictjson.ErrTruncated},
		{strictjson.Check, `[{"a":1},{"a":1}]`, nil},
		{strictjson.Check, `[{"b":{"a":1,"A":1}}]`, strictjson.ErrDuplicate},
		{strictjson.Check, `1 2`, strictjson.ErrTrailing},
		{strictjson.Check, strings.Repeat("[", 10000) + strings.Repeat("]", 10000), nil},
		{strictjson.Check, strings.Repeat("[", 1<<20), strictjson.ErrDepth},
	} {
		if err := tc.read([]byte(tc.body)); !errors.Is(err, tc.want) {
			t.Errorf("%.40s: got %v, want %v", tc.body, err, tc.want)
		}
	}
}

func TestSyntaxErrorDoesNotQuoteTheBody(t *testing.T) {
	for _, body := range []string{`{"secret":1,sesame}`, `{"secret" 1}`, `sesame`, `{"a":sesame}`, `{1:2}`} {
		var syntax *strictjson.SyntaxError
		err := strictjson.Check([]byte(body))
		if !errors.As(err, &syntax) || strings.Contains(err.Error(), "se") {
			t.Errorf("%s: got %v", body, err)
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
