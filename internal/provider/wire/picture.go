package wire

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"

	"poold/internal/captcha"
)

// largestPicture is the most bytes of a picture.
var largestPicture = map[Flavour]int{CaptchaAI: 1 << 20, TwoCaptcha: 100_000, AnyClient: 1 << 20}

// readPicture judges a picture's bytes; the code says what is wrong with them.
func readPicture(image []byte, flavour Flavour) (sum, bad string) {
	switch {
	case len(image) == 0:
		return "", CodeNoImage
	case len(image) > largestPicture[flavour]:
		return "", CodeTooBig
	case !slices.Contains([]string{"image/png", "image/jpeg", "image/gif"}, http.DetectContentType(image)):
		return "", CodeImageKind
	}
	hash := sha256.Sum256(image)
	return hex.EncodeToString(hash[:]), ""
}

// decodePicture reads a picture's base64.
func decodePicture(body string, flavour Flavour) (image []byte, sum, bad string) {
	image, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		return nil, "", CodeUpload
	}
	sum, bad = readPicture(image, flavour)
	return image, sum, bad
}

// charsets are what `numeric` means in both protocols.
var charsets = []captcha.Charset{"", captcha.Digits, captcha.Letters, captcha.DigitsOrLetters, captcha.DigitsAndLetters}

// judge finds options that no picture has.
func judge(p captcha.Picture, numeric int) (captcha.Picture, string) {
	if numeric < 0 || numeric >= len(charsets) || p.MinLength < 0 || p.MaxLength < 0 ||
		p.MaxLength > 0 && p.MinLength > p.MaxLength {
		return p, CodeBadParams
	}
	p.Charset = charsets[numeric]
	return p, ""
}

// picture reads the parameters of a picture of the legacy protocol. Its bytes are a file
// where upload says so, else the text of the field body.
func (f fields) picture(o *Order, upload bool) {
	var bad string
	count := func(names ...string) (n int) {
		for _, name := range names {
			text := f.values.Get(name)
			if text == "" {
				continue
			}
			var err error
			if n, err = strconv.Atoi(text); err != nil {
				bad = CodeBadParams
			}
		}
		return n
	}
	numeric := count("numeric")
	p := captcha.Picture{
		CaseSensitive: f.flag("regsense", &bad), Phrase: f.flag("phrase", &bad), Math: f.flag("calc", &bad),
		Language: f.values.Get("lang"), Instructions: f.values.Get("textinstructions"),
	}
	p.MinLength, p.MaxLength = count("min_len"), count("max_len")
	if f.flavour != TwoCaptcha {
		p.MinLength, p.MaxLength = count("min_len", "minLen"), count("max_len", "maxLen")
	}
	var worse string
	if upload {
		o.Image = f.file
		p.SHA256, worse = readPicture(f.file, f.flavour)
	} else {
		o.Image, p.SHA256, worse = decodePicture(f.values.Get("body"), f.flavour)
	}
	if worse != "" {
		bad = worse
	}
	if bad == "" {
		p, bad = judge(p, numeric)
	}
	o.Identity.Picture = p
	if bad != "" {
		o.Bad = bad
	}
}

// languages are what a languagePool means.
var languages = map[string]string{"": "", "en": "en", "rn": "ru"}

// picture reads that of the tasks protocol.
func (f *taskFields) picture(o *Order, languagePool string, flavour Flavour) {
	language, known := languages[languagePool]
	if !known {
		o.Bad = CodeBadParams
		return
	}
	p := captcha.Picture{
		CaseSensitive: f.Case, MinLength: f.MinLength, MaxLength: f.MaxLength, Phrase: f.Phrase, Math: f.Math,
		Language: language, Instructions: f.Comment,
	}
	if o.Image, p.SHA256, o.Bad = decodePicture(f.Body, flavour); o.Bad == "" {
		p, o.Bad = judge(p, f.Numeric)
	}
	o.Identity.Picture = p
}
