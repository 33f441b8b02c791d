package tokenid

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"testing"
)

// The ID of a token contains the order's id and an HMAC-SHA256 of order and caller, cut to 12
// bytes. Order accepts only this ID, and only with this caller.
func TestAnIDIsBoundToItsCaller(t *testing.T) {
	s := newSigner("secret")
	for _, caller := range []string{"", "a", "key\x00nightly\x00"} {
		mac := hmac.New(sha256.New, []byte("secret"))
		_, _ = mac.Write([]byte("ORDER\x00" + caller))
		want := "ORDER." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:12])
		for range 2 {
			if got := s.ID("ORDER", caller); got != want {
				t.Errorf("%q: %s, want %s", caller, got, want)
			}
		}
		if order, valid := s.Order(want, caller); order != "ORDER" || !valid {
			t.Errorf("%q: %s %v", caller, order, valid)
		}
		for _, other := range []string{"", "ORDER", "ORDER.", want + "A", want[:len(want)-1], "OTHER" + want[5:],
			newSigner("other").ID("ORDER", caller)} {
			if _, valid := s.Order(other, caller); valid {
				t.Errorf("%q: %q is valid", caller, other)
			}
		}
		if _, valid := s.Order(want, "another"); valid {
			t.Errorf("%q: the ID is valid for another caller", caller)
		}
	}
}
