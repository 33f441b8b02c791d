package pool

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// fillStruct sets each field of a struct to a unique nonzero value.
func fillStruct(t *testing.T, v reflect.Value) {
	t.Helper()
	for i := range v.NumField() {
		switch field := v.Field(i); field.Kind() {
		case reflect.Struct:
			fillStruct(t, field)
		case reflect.String:
			field.SetString(fmt.Sprint(v.Type().Field(i).Name, "-canary"))
		case reflect.Bool:
			field.SetBool(true)
		case reflect.Int, reflect.Int64:
			field.SetInt(int64(i + 1))
		case reflect.Float64:
			field.SetFloat(0.5)
		default:
			t.Fatalf("a field of kind %v", field.Kind())
		}
	}
}

// The adopter of an order can read all facts except the proxy, which is a secret.
func TestFactsContainTheIdentity(t *testing.T) {
	var f Facts
	fillStruct(t, reflect.ValueOf(&f).Elem())
	f.Unpriced = false // field of the stored form only
	text := f.encode(7)
	if strings.Contains(text, "Proxy") {
		t.Errorf("a secret is in the facts: %s", text)
	}
	want := f
	want.Identity.Proxy, want.Identity.ProxyType = "", ""
	got, price, err := decodeFacts(text, 7)
	if err != nil || got != want || price != 7 {
		t.Errorf("read with price %d, %v:\n%+v\nwant:\n%+v", price, err, got, want)
	}
}
