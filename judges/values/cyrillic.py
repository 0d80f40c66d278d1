"""Distinguishes Russian from other languages that are written in Cyrillic letters."""

import re

# A few sentences are enough, and a text may be long.
_READ_CHARS = 4000

_WORD = re.compile("[\u0400-\u0481\u048a-\u04ff]+(?:['’ʼ][\u0400-\u04ff]+)*")
# Letters that Russian does not have, a hard sign where Russian never has one («върна»), an article at the end of a
# word («гаранцията»), and a long vowel («илгээмж»).
_FOREIGN = re.compile("[^а-яё'’ʼ]|ъ(?![еёюя])|ията$|ээ")
_RUSSIAN_LETTER = "ы"

# Frequent words that are not Russian: Ukrainian, Belarusian, Bulgarian, then Serbian and Macedonian.
_FOREIGN_WORDS = """
    як що це цей або чи але й його вона вони мене може треба коли дуже ще вже немає скільки після якщо який яка яке
    дякую чому також буде був була було були є што гэта ці яго яе яны калі дзе вельмі яшчэ няма колькі
    пасля ад се че съм са ще това като какво къде кога защо колко моята този тази тези мога искам дали ако бъде беше
    како шта су колико када зашто ово би каде зошто колку ова
"""
# Frequent Russian words; the few that are also in the list above count as Russian.
_RUSSIAN_WORDS = """
    что это этот эта эти чтобы если вы мы они еще ещё уже когда где сколько какой какая какие какое какого можно
    нужно его её ее был была было были есть только после также нет меня мне мной будет для из вас вам нас нам ваш
    ваша мой моя мои почему который которая которые того этого
"""
_RUSSIAN = frozenset(_RUSSIAN_WORDS.split())
_FOREIGN_ONLY = frozenset(_FOREIGN_WORDS.split()) - _RUSSIAN


def is_russian(text: str) -> bool:
    """Whether the Cyrillic words of a text look more like Russian than a related language; in doubt, yes."""
    foreign = russian = 0.0
    for match in _WORD.finditer(text[:_READ_CHARS].casefold()):
        word = match[0]
        if word in _FOREIGN_ONLY or _FOREIGN.search(word):
            foreign += 1.0
        elif word in _RUSSIAN:
            russian += 1.0
        elif _RUSSIAN_LETTER in word:
            russian += 0.5
    return foreign <= russian
