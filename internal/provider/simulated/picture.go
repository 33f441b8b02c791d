package simulated

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"poold/internal/captcha"
)

const (
	codeUpload    = "ERROR_UPLOAD"
	codeNoImage   = "ERROR_ZERO_CAPTCHA_FILESIZE"
	codeTooBig    = "ERROR_TOO_BIG_CAPTCHA_FILESIZE"
	codeImageKind = "ERROR_IMAGE_TYPE_NOT_SUPPORTED"
)

// largestPicture is the most bytes of a picture.
var largestPicture = map[Flavour]int{CaptchaAI: 1 << 20, TwoCaptcha: 100_000}

// pictureHash reads a picture's base64. Its bytes are not kept; the code says what is
// wrong with them.
func pictureHash(body string, flavour Flavour) (sum, bad string) {
	image, err := base64.StdEncoding.DecodeString(body)
	switch {
	case err != nil:
		return "", codeUpload
	case len(image) == 0:
		return "", codeNoImage
	case len(image) > largestPicture[flavour]:
		return "", codeTooBig
	case !slices.Contains([]string{"image/png", "image/jpeg", "image/gif"}, http.DetectContentType(image)):
		return "", codeImageKind
	}
	hash := sha256.Sum256(image)
	return hex.EncodeToString(hash[:]), ""
}

// charsets are what `numeric` means in both protocols.
var charsets = []captcha.Charset{"", captcha.Digits, captcha.Letters, captcha.DigitsOrLetters, captcha.DigitsAndLetters}

// judge finds options that no picture has.
func judge(p captcha.Picture, numeric int) (captcha.Picture, string) {
	if numeric < 0 || numeric >= len(charsets) || p.MinLength < 0 || p.MaxLength < 0 ||
		p.MaxLength > 0 && p.MinLength > p.MaxLength {
		return p, codeBadParams
	}
	p.Charset = charsets[numeric]
	return p, ""
}

// legacyPicture reads the parameters of a picture.
func legacyPicture(v url.Values, flavour Flavour) (p captcha.Picture, bad string) {
	count := func(names ...string) (n int) {
		for _, name := range names {
			text := v.Get(name)
			if text == "" {
				continue
			}
			var err error
			if n, err = strconv.Atoi(text); err != nil {
				bad = codeBadParams
			}
		}
		return n
	}
	numeric := count("numeric")
	p = captcha.Picture{
		CaseSensitive: flag(v, "regsense", &bad), Phrase: flag(v, "phrase", &bad), Math: flag(v, "calc", &bad),
		Language: v.Get("lang"), Instructions: v.Get("textinstructions"),
	}
	if flavour == CaptchaAI {
		p.MinLength, p.MaxLength = count("min_len", "minLen"), count("max_len", "maxLen")
	} else {
		p.MinLength, p.MaxLength = count("min_len"), count("max_len")
	}
	sum, worse := pictureHash(v.Get("body"), flavour)
	p.SHA256 = sum
	if worse != "" {
		bad = worse
	}
	if bad != "" {
		return p, bad
	}
	return judge(p, numeric)
}

// tasksPicture reads those of the tasks protocol.
func tasksPicture(f *taskFields, languagePool string, flavour Flavour) (p captcha.Picture, bad string) {
	languages := map[string]string{"": "", "en": "en", "rn": "ru"}
	language, known := languages[languagePool]
	if !known {
		return p, codeBadParams
	}
	p = captcha.Picture{
		CaseSensitive: f.Case, MinLength: f.MinLength, MaxLength: f.MaxLength, Phrase: f.Phrase, Math: f.Math,
		Language: language, Instructions: f.Comment,
	}
	if p.SHA256, bad = pictureHash(f.Body, flavour); bad != "" {
		return p, bad
	}
	return judge(p, f.Numeric)
}
