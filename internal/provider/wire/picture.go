package wire

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"slices"

	"poold/internal/captcha"
)

// largestPicture limits a picture, in bytes.
const largestPicture = 1 << 20

// readPicture validates a picture's bytes and hashes them; bad is "" if they are valid.
func readPicture(image []byte) (sum, bad string) {
	switch {
	case len(image) == 0:
		return "", CodeNoImage
	case len(image) > largestPicture:
		return "", CodeTooBig
	case !slices.Contains([]string{"image/png", "image/jpeg", "image/gif"}, http.DetectContentType(image)):
		return "", CodeImageKind
	}
	hash := sha256.Sum256(image)
	return hex.EncodeToString(hash[:]), ""
}

// decodePicture reads a picture's base64.
func decodePicture(body string) (image []byte, sum, bad string) {
	image, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		return nil, "", CodeUpload
	}
	sum, bad = readPicture(image)
	return image, sum, bad
}

// charsets are the meanings of `numeric` in both protocols, by number.
var charsets = []captcha.Charset{"", captcha.Digits, captcha.Letters, captcha.DigitsOrLetters, captcha.DigitsAndLetters}

// charsetOf returns the charset of a number, false for an unknown number.
func charsetOf(n int) (captcha.Charset, bool) {
	if n < 0 || n >= len(charsets) {
		return "", false
	}
	return charsets[n], true
}

// possible reports whether a text can satisfy the length limits.
func possible(p captcha.Picture) bool {
	return p.MinLength >= 0 && p.MaxLength >= 0 && (p.MaxLength == 0 || p.MinLength <= p.MaxLength)
}

// picture reads the bytes of a picture of the legacy protocol: a file if upload is set, else
// the text of the field body.
func (f fields) picture(o *Order, upload bool) {
	var bad string
	p := &o.Identity.Picture
	if upload {
		o.Image = f.file
		p.SHA256, bad = readPicture(f.file)
	} else {
		o.Image, p.SHA256, bad = decodePicture(f.values.Get("body"))
	}
	switch {
	case bad != "":
		o.Bad = bad
	case !possible(*p):
		o.Bad = CodeBadParams
	}
}

// languagePools maps languages to the tasks protocol's names of worker pools.
var languagePools = map[string]string{"": "", "en": "en", "ru": "rn"}

// picture reads a picture of the tasks protocol.
func (t *Task) picture(o *Order, languagePool string) {
	p := &o.Identity.Picture
	*p = captcha.Picture{
		CaseSensitive: t.Case, MinLength: t.MinLength, MaxLength: t.MaxLength,
		Phrase: t.Phrase, Math: t.Math, Instructions: t.Comment,
	}
	var spoken, numbered bool
	for language, pool := range languagePools {
		if pool == languagePool {
			p.Language, spoken = language, true
		}
	}
	p.Charset, numbered = charsetOf(t.Numeric)
	o.Image, p.SHA256, o.Bad = decodePicture(t.Body)
	if o.Bad == "" && (!spoken || !numbered || !possible(*p)) {
		o.Bad = CodeBadParams
	}
}
