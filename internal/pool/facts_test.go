package pool

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"poold/internal/captcha"
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
	f.Type, f.Enterprise, f.Unpriced = "", false, false // fields of the stored form only
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

// The stored form equals the form of older versions of poold, so these versions can read it.
func TestStoredFacts(t *testing.T) {
	wanted := captcha.Identity{Type: captcha.HCaptcha, Enterprise: true, Sitekey: "k", Pageurl: "https://example.com/"}
	full := Facts{
		Target: "login", Owner: "qa@example.com", Provider: "one", Account: "abc", Identity: wanted,
		LifetimeMS: 120000, MarginMS: 40000, Called: true, DelayMS: 10000, TimeoutMS: 180000,
	}
	chosen := full
	chosen.Choice = "cheapest"
	for _, c := range []struct {
		facts Facts
		price int64
		text  string
	}{
		{full, 7, `{"target":"login","owner":"qa@example.com","provider":"one","account":"abc",` +
			`"identity":{"sitekey":"k","pageurl":"https://example.com/"},"type":"hcaptcha","enterprise":true,` +
			`"lifetime_ms":120000,"margin_ms":40000,"called":true,"callback_delay_ms":10000,"timeout_ms":180000}`},
		{chosen, PriceUnknown, `{"target":"login","owner":"qa@example.com","provider":"one","account":"abc",` +
			`"identity":{"sitekey":"k","pageurl":"https://example.com/"},"type":"hcaptcha","enterprise":true,` +
			`"lifetime_ms":120000,"margin_ms":40000,"called":true,"callback_delay_ms":10000,"timeout_ms":180000,` +
			`"choice":"cheapest","unpriced":true}`},
		{Facts{Provider: "one", Identity: captcha.Identity{Type: captcha.Turnstile}}, PriceUnknown, `{"target":"","provider":"one",` +
			`"type":"turnstile","lifetime_ms":0,"margin_ms":0,"callback_delay_ms":0,"timeout_ms":0,"unpriced":true}`},
	} {
		if text := c.facts.encode(c.price); text != c.text {
			t.Errorf("stored %s, want %s", text, c.text)
		}
		if f, price, err := decodeFacts(c.text, max(0, c.price)); err != nil || f != c.facts || price != c.price {
			t.Errorf("read %+v with price %d, %v, want %+v", f, price, err, c.facts)
		}
	}
}

// If a later version changed the form of some facts, the other facts are still read.
func TestUnreadableFacts(t *testing.T) {
	f, price, err := decodeFacts(`{"target":["?"],"provider":"one","type":"hcaptcha"}`, 7)
	if err == nil || f != (Facts{Provider: "one", Identity: captcha.Identity{Type: captcha.HCaptcha}}) || price != 7 {
		t.Errorf("read %+v with price %d, %v", f, price, err)
	}
}
