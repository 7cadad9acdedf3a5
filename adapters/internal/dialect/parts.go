package dialect

import (
	"cmp"
	"encoding/base64"
	"path"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// partForm describes the parts of messages in one of OpenAI's APIs: their types and the paths of their members.
type partForm struct {
	dialect                 middleware.Dialect
	texts                   []string // the types of text parts; the first one is written
	image, url, detail      string
	imageID                 string // "" if a stored image is referred to like any file
	file, name, data, id    string
	address                 string // of a file by URL; "" if the API does not accept URLs
	document                string // type of a part with only a file's URL; "" if there is none
	known                   memberSet
	audio, sound, soundForm string
}

var (
	chatParts = partForm{
		dialect: middleware.DialectChat, texts: []string{"text"}, image: "image_url", url: "image_url.url", detail: "image_url.detail",
		file: "file", name: "file.filename", data: "file.file_data", id: "file.file_id", audio: "input_audio", sound: "input_audio.data", soundForm: "input_audio.format",
		document: "document_url", // Mistral's
		known:    newKnown("type text refusal image_url.url image_url.detail file.filename file.file_data file.file_id document_url document_name"),
	}
	responsesParts = partForm{
		dialect: middleware.DialectResponses, texts: []string{"input_text", "output_text", "text"}, image: "input_image", url: "image_url", detail: "detail", imageID: "file_id",
		file: "input_file", name: "filename", data: "file_data", id: "file_id", address: "file_url",
		known: newKnown("type text logprobs refusal detail image_url filename file_data file_id file_url"),
	}
)

// read reads the content of a message: a string, a list of parts, or nothing.
func (form *partForm) read(f field) (parts []llms.ContentPart) {
	f.content(&parts, func(f field) {
		kind := f.get("type").text()
		if kind != "refusal" {
			parts = append(parts, f.unknown(form.dialect, partMembers, form.known)...)
		}
		switch {
		case slices.Contains(form.texts, kind):
			parts = append(parts, llms.TextContent{Text: f.get("text").text()})
		case kind == "refusal": // a text for models of other APIs
			parts = append(parts, middleware.RawPart{TextContent: llms.TextContent{Text: f.get("refusal").text()}, Dialect: form.dialect, Raw: f.raw()})
		case kind == form.image && form.imageID != "" && f.get(form.imageID).exists():
			parts = append(parts, middleware.FilePart{ID: f.get(form.imageID).text(), MIMEType: "image/*"})
		case kind == form.image:
			url := f.get(form.url)
			if short := f.get(form.image); short.value.Type == gjson.String { // Mistral's form
				url = short
			}
			parts = append(parts, url.image(url.optional(), f.get(form.detail).optional()))
		case kind == form.file:
			parts = append(parts, form.readFile(f))
		case kind == form.document && kind != "":
			parts = append(parts, f.get(kind).fileAt())
		default:
			f.get("type").refusef("is %q: want %s, %s or %s", kind, form.texts[0], form.image, form.file)
		}
	})
	return parts
}

func (form *partForm) readFile(f field) llms.ContentPart {
	p := middleware.FilePart{Name: f.get(form.name).optional(), ID: f.get(form.id).optional()}
	if form.address != "" {
		p.URL = f.get(form.address).optional()
	}
	if d := f.get(form.data); d.exists() {
		p.MIMEType, p.Data = d.decodeData("application/pdf")
	}
	if p.Data == nil && p.ID == "" && p.URL == "" {
		f.refusef("a file without its content")
	}
	return p
}

// fileAt returns the file at a URL, which can be a data: URL.
func (f field) fileAt() llms.ContentPart {
	p := middleware.FilePart{URL: f.text()}
	if strings.HasPrefix(p.URL, "data:") {
		p.MIMEType, p.Data = f.decodeData("")
		p.URL = ""
	}
	return p
}

func (form *partForm) write(p llms.ContentPart) (Object, error) {
	switch p := p.(type) {
	case llms.TextContent:
		return Object{"type": form.texts[0], "text": p.Text}, nil
	case llms.ImageURLContent:
		return newPart(form.image, form.url, p.URL, form.detail, p.Detail), nil
	case middleware.FilePart:
		if p.Data != nil {
			return form.writeData(p), nil
		}
		isImage := strings.HasPrefix(p.MIMEType, "image/")
		switch {
		case isImage && p.URL != "":
			return newPart(form.image, form.url, p.URL), nil
		case isImage && form.imageID != "":
			return newPart(form.image, form.imageID, p.ID), nil
		case p.ID != "":
			return newPart(form.file, form.id, p.ID), nil
		case form.address != "":
			return newPart(form.file, form.address, p.URL), nil
		}
		return nil, refuseCall("the API rejects files by URL: %s", p.URL)
	}
	return nil, refusePart(p)
}

func (form *partForm) writeData(p middleware.FilePart) Object {
	url := dataURL(p.MIMEType, p.Data)
	kind, sound, _ := strings.Cut(p.MIMEType, "/")
	switch {
	case kind == "image":
		return newPart(form.image, form.url, url)
	case kind == "audio" && form.audio != "":
		sound = strings.TrimPrefix(sound, "x-")
		return newPart(form.audio, form.sound, base64.StdEncoding.EncodeToString(p.Data), form.soundForm, cmp.Or(soundForms[sound], sound))
	case p.ID != "":
		return newPart(form.file, form.id, p.ID)
	}
	name := cmp.Or(p.Name, "file") // the API accepts a name only with data, and data only with a name
	if path.Ext(name) == "" && (p.MIMEType == "application/pdf" || p.Name == "") {
		name += ".pdf"
	}
	return newPart(form.file, form.name, name, form.data, url)
}

// soundForms maps audio subtypes to OpenAI's names where these differ.
var soundForms = map[string]string{"mpeg": "mp3"}

// newPart returns a part of a type, with members from pairs of a path and a text. Empty texts are left out.
func newPart(kind string, pairs ...string) Object {
	o := Object{"type": kind}
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			o.setPath(pair[0], pair[1])
		}
	}
	return o
}
