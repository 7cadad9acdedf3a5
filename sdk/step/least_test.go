package step

import (
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// The lower bound never exceeds the count of a real tokenizer. The expected counts are the
// least of tiktoken's vocabularies o200k_base, cl100k_base and r50k_base, by github.com/tiktoken-go/tokenizer v0.10.0.
func TestNoTokenizerGoesBelow(t *testing.T) {
	random := make([]byte, 3000)
	for i, r := 0, rand.New(rand.NewPCG(1, 2)); i < len(random); i++ {
		random[i] = byte(r.Uint32())
	}
	for name, c := range map[string]struct {
		text string
		true int     // tokens
		most float64 // times as many as are counted; what is looser is believed too much
	}{
		"prose":          {strings.Repeat("The quick brown fox jumps over the lazy dog, and nobody knows why it does. ", 100), 1701, 2},
		"code":           {strings.Repeat("\tfor i := range list {\n\t\tif err := list[i].check(ctx); err != nil {\n\t\t\treturn fmt.Errorf(\"item %d: %w\", i, err)\n\t\t}\n\t}\n", 20), 820, 2.5},
		"JSON":           {strings.Repeat(`{"id":17,"name":"widget","tags":["a","b"],"price":9.99,"stock":null},`, 30), 721, 2.5},
		"indented":       {strings.Repeat("                                        end\n", 50), 150, 5},
		"base64":         {base64.StdEncoding.EncodeToString(random), 2680, 5},
		"hex":            {hex.EncodeToString(random), 3404, 4},
		"Chinese":        {strings.Repeat("人工智能是计算机科学的一个分支,它企图了解智能的实质,中华人民共和国国务院关于加强社会主义市场经济体制改革的意见。", 20), 660, 3},
		"Thai":           {strings.Repeat("ปัญญาประดิษฐ์หมายถึงความฉลาดเทียมที่สร้างขึ้น", 20), 380, 7},
		"Russian":        {strings.Repeat("Искусственный интеллект является свойством систем выполнять творческие функции. ", 20), 262, 3},
		"long words":     {strings.Repeat("internationalization telecommunications responsibilities ", 20), 81, 2},
		"one long token": {strings.Repeat("abcdefghijklmnopqrstuvwxyz", 20), 20, 2},
		"a ruler":        {strings.Repeat("-", 2000), 31, 50},
		"a table":        {strings.Repeat("| a    | b   | c |\n|------|-----|---|\n", 50), 800, 4},
		"numbers":        {strings.Repeat("1 2 3 4 5 6 7 8 9 10 ", 100), 1001, 6},
		"digits":         {strings.Repeat("3141592653589793238462643383279502884197", 20), 267, 3},
	} {
		least := minTokens(c.text)
		if least > float64(c.true) || least*c.most < float64(c.true) {
			t.Errorf("%s: at least %.0f tokens of %d in %d bytes", name, least, c.true, len(c.text))
		}
	}
}

// Counting an answer's tokens must take less time than sending it.
func BenchmarkLeastTokens(b *testing.B) {
	text, err := os.ReadFile("engine.go")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		minTokens(string(text))
	}
}
