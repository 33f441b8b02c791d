package wire

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"slices"

	"poold/internal/captcha"
)

// largestPicture is the maximum size of a picture in bytes.
const largestPicture = 1 << 20

// readPicture validates the bytes of a picture. It returns the hash of the bytes, or an error code
// in bad.
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

// decodePicture decodes a picture from base64 and validates it.
func decodePicture(body string) (image []byte, sum, bad string) {
	image, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		return nil, "", CodeUpload
	}
	sum, bad = readPicture(image)
	return image, sum, bad
}

// charsets lists the character sets by their numbers in the field `numeric` of both protocols.
var charsets = []captcha.Charset{"", captcha.Digits, captcha.Letters, captcha.DigitsOrLetters, captcha.DigitsAndLetters}

// charsetOf returns the character set for a number in the field `numeric`, and false for an unknown
// number.
func charsetOf(n int) (captcha.Charset, bool) {
	if n < 0 || n >= len(charsets) {
		return "", false
	}
	return charsets[n], true
}

// isPossible reports whether a text can satisfy both limits of the length.
func isPossible(p captcha.Picture) bool {
	return p.MinLength >= 0 && p.MaxLength >= 0 && (p.MaxLength == 0 || p.MinLength <= p.MaxLength)
}

// picture reads the picture of a submission in the legacy protocol. If upload is true,
// the picture is the uploaded file. If it is false, the picture is in the field `body`, in base64.
func (f fields) picture(o *Order, upload bool) {
	var bad string
	p := &o.Identity.Picture
	if upload {
		o.Image = f.file
		p.SHA256, bad = readPicture(f.file)
	} else {
		o.Image, p.SHA256, bad = decodePicture(f.values.Get("body"))
	}
	o.refuse(bad, "body")
	if !isPossible(*p) {
		o.refuse(CodeBadParams, "min_len")
	}
}

// languagePools maps languages to the names of the worker pools in the tasks protocol.
var languagePools = map[string]string{"": "", "en": "en", "ru": "rn"}

// picture reads the picture of a submission in the tasks protocol.
func (t *Task) picture(o *Order, languagePool string) {
	p := &o.Identity.Picture
	*p = captcha.Picture{
		CaseSensitive: bool(t.Case), MinLength: t.MinLength, MaxLength: t.MaxLength,
		Phrase: bool(t.Phrase), Math: bool(t.Math), Instructions: t.Comment,
	}
	var spoken, numbered bool
	for language, pool := range languagePools {
		if pool == languagePool {
			p.Language, spoken = language, true
		}
	}
	p.Charset, numbered = charsetOf(t.Numeric)
	var bad string
	o.Image, p.SHA256, bad = decodePicture(t.Body)
	o.refuse(bad, "body")
	switch {
	case !spoken:
		o.refuse(CodeBadParams, "languagePool")
	case !numbered:
		o.refuse(CodeBadParams, "numeric")
	case !isPossible(*p):
		o.refuse(CodeBadParams, "minLength")
	}
}
