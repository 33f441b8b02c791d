package httpapi

import (
	"strconv"
	"time"
	"unicode/utf8"

	"poold/internal/httpapi/kernel"
	"poold/internal/pool"
	"poold/internal/targets"
)

// Token answers are put together by hand: they are the one hot path of the
// daemon. A test compares the result with encoding/json's.

// appendToken appends the JSON answer with a token of a target.
func appendToken(b []byte, of *targets.Target, t *pool.Token) []byte {
	b = append(b, `{"id":`...)
	b = appendString(b, t.ID)
	b = append(b, `,"target":`...)
	b = appendString(b, of.Name)
	b = append(b, `,"type":`...)
	b = appendString(b, string(of.Identity.Type))
	b = append(b, `,"token":`...)
	b = appendString(b, t.Value)
	b = append(b, `,"source":`...)
	b = appendString(b, string(t.Source))
	b = append(b, `,"provider":`...)
	b = appendString(b, t.Provider)
	b = append(b, `,"solved_at":"`...)
	b = kernel.AppendTime(b, t.Born)
	b = append(b, `","expires_at":"`...)
	b = kernel.AppendTime(b, t.Dies)
	b = append(b, `","ttl_ms":`...)
	b = strconv.AppendInt(b, int64(t.TTL/time.Millisecond), 10)
	if t.UserAgent != "" {
		b = append(b, `,"user_agent":`...)
		b = appendString(b, t.UserAgent)
	}
	return append(b, "}\n"...)
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string, the way encoding/json does without
// its HTML escapes: what is not UTF-8 becomes U+FFFD, and the two line
// separators that JavaScript once choked on are escaped.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	done := 0 // s[:done] is in b
	for i := plainPrefix(s); i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			b = append(b, s[done:i]...)
			b = appendEscape(b, c)
			i++
			done = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if broken := r == utf8.RuneError && size == 1; broken || r == '\u2028' || r == '\u2029' {
			b = append(b, s[done:i]...)
			b = append(b, `\u`...)
			for shift := 12; shift >= 0; shift -= 4 {
				b = append(b, hexDigits[r>>shift&0xF])
			}
			done = i + size
		}
		i += size
	}
	b = append(b, s[done:]...)
	return append(b, '"')
}

// plainPrefix is the length of a part of s, a multiple of eight, in which
// nothing needs an escape. Tokens consist of nothing else, so it looks at eight
// bytes at once: a byte is suspicious if it is below ' ', a quote, a backslash or
// above ASCII.
func plainPrefix(s string) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(s); i += 8 {
		v := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		quote, slash := v^(ones*'"'), v^(ones*'\\')
		if (v|(v-ones*' ')|(quote-ones)|(slash-ones))&tops != 0 {
			break
		}
	}
	return i
}

// appendEscape appends an ASCII character that may not stand for itself.
func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, '\\', 'b')
	case '\f':
		return append(b, '\\', 'f')
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xF])
}
