"""Sets from which the facts of generated documents are drawn: each holds 100 values or more, so that a guess is
worth at most 1 %."""

FIRST = """Ada Agnes Albert Alice Ambrose Amos Anna Arthur Barnaby Beatrice Bertram Bridget Caleb Cecil Celia Charles
Clara Clement Conrad Cora Cyril Daisy Daniel David Dora Edgar Edith Edmund Eleanor Eliza Ella Emily Emma Enoch Ernest
Esther Eugene Eva Fanny Felix Flora Florence Frances Francis Frederick George Gerald Gertrude Gideon Grace Gregory
Hannah Harold Harriet Helen Henry Herbert Hester Hilda Horace Howard Hugh Humphrey Ida Irene Isaac Isabel Jacob James
Jane Jasper Jemima Jeremiah Jessie Joan Job John Jonas Joseph Josephine Joshua Josiah Judith Julia Julian Kate Laura
Leonard Letitia Lewis Lily Louisa Lucy Luke Lydia Mabel Magnus Margaret Marion Mark Martha Martin Mary Matthew Maud
Miles Milly Mina Miriam Molly Nathaniel Nell Nicholas Nora Norman Oliver Oscar Patrick Paul Percy Peter Philip Phoebe
Rachel Ralph Rebecca Robert Roger Roland Rosa Rupert Ruth Samuel Sarah Silas Simon Sophia Stella Stephen Susan Sybil
Theodore Thomas Timothy Tobias Ursula Victor Violet Walter Wilfred William Winifred""".split()

LAST = """Abbot Adair Alder Archer Ashby Atwood Baker Barlow Barrow Beck Bell Bennet Birch Blackwood Blake Bolt Bower
Bramble Brand Briggs Brook Burrows Butler Carver Chandler Clay Cole Cooper Crane Croft Crowe Dale Darby Dawes Drake
Dunmore Earle Eastman Ellis Ember Fairfax Falk Farrow Fenn Field Finch Fisher Flint Foster Fox Frost Gale Garland
Gibbs Glover Graves Gray Greene Grove Hale Hammond Harding Hardy Hart Hawke Hayes Heath Holt Hood Hooper Horne Howe
Hunter Hurst Ives Jarvis Keane Kemp Kent Kirk Knight Lake Lamb Lane Lark Lee Lister Lock Lowe Marlow Marsh Marrow
Mason Mercer Mill Moore Morris Moss Nash North Norton Oakes Orchard Page Parr Pascoe Pike Pole Poole Porter Pratt
Price Quill Raven Reed Rhodes Ridley Rivers Rook Rowe Sawyer Sharp Shaw Shore Slater Snow Spence Stark Stone Swift
Tanner Thorne Tilley Turner Vale Vance Wade Walker Ward Waters Webb West Wheeler White Wilde Winter Wood Wren Yates
York Young""".split()

ONSETS = "b bl br c cl cr d dr f fl fr g gl gr h j k l m n p pl pr qu r s sh sk sl sp st str t th tr v w wr y z".split()
VOWELS = "a e i o u ai ea ee ie oa oo ou".split()
CODAS = "b ck d f g l ld ll m n nd ng nt p r rd rk rn s sh sk st t th x".split()
PLACE_ENDS = """ton ford ham bury wick by mouth field wood stead port dale well low ness combe haven stow gate bridge
burn moor worth cote holm""".split()

GOODS = """almonds amber anchors apples barley barrels baskets beans beeswax bells books boots bottles brass bread
bricks bronze brooms brushes butter buttons candles canvas carpets carrots carts cattle chains chairs charcoal cheese
cherries chestnuts cider clay clocks cloth coal coats cocoa coffee coins combs copper coral cork corn cotton cups
dates dyes eggs feathers felt figs fish flags flax flour furs ginger glass gloves gold granite grapes gravel hammers
harps hats hay hemp herrings hides honey hooks hops horses indigo ink iron ivory jam kettles knives lace lamps lead
leather lemons lime linen locks maps marble masts milk mirrors mustard nails needles nets nuts oats oil olives onions
oranges oysters paint paper pearls pears peas pepper pins plums porcelain pots pumps quills raisins ribbons rice rope
rubber rugs rye saddles saffron sails salt sand sausages seeds sheep shells shoes silk silver slate soap spices sponges
steel stockings straw sugar tar tea tiles timber tin tobacco tools toys turnips umbrellas vinegar violins wagons walnuts
watches wax wheat wheels whips willow wine wire wool yarn zinc""".split()

ANIMALS = """adder albatross ant antelope badger bat bear beaver bee beetle bison blackbird boar buffalo bull butterfly
buzzard camel canary carp cat cheetah chicken cobra cockatoo cod cow crab crane cricket crocodile crow cuckoo deer dog
dolphin donkey dove dragonfly duck eagle eel elephant elk falcon ferret finch flamingo fox frog gazelle giraffe goat
goldfinch goose gorilla grouse gull hare hawk hedgehog heron herring horse hyena ibis jackal jackdaw jaguar jay
kestrel kingfisher kite lamb lark leopard lion lizard llama lobster lynx magpie mallard mole monkey moose moth mouse
mule newt nightingale octopus osprey ostrich otter owl ox oyster panther parrot partridge peacock pelican penguin
pheasant pig pigeon pike pony porcupine puffin quail rabbit raccoon ram rat raven robin rook salmon seal shark sheep
shrew skunk snail snake sparrow spider squirrel stag starling stork swallow swan swift thrush tiger toad tortoise trout
turkey turtle viper vulture walrus wasp weasel whale wolf woodpecker wren zebra""".split()

TRADES = """actor architect artist astronomer attorney baker banker barber baron basket-maker beekeeper bishop
blacksmith boatman bookbinder bookseller botanist bricklayer brewer broker butcher butler cabinet-maker captain
carpenter carter chemist clerk clockmaker coachman cobbler composer cook cooper coroner courier dancer dentist diver
doctor draper driver dyer editor engineer engraver farmer ferryman fiddler fisherman florist forester furrier gardener
geologist glazier glover goldsmith governess grocer groom guide gunsmith harpist hatter hunter innkeeper inspector
interpreter jeweller joiner journalist judge juggler laundress lawyer librarian locksmith magician mason mayor merchant
midwife miller miner minister musician nurse optician organist painter pastor philosopher photographer pilot piper
plumber poet porter postman potter printer professor publisher roofer sailor saddler schoolmaster sculptor secretary
sergeant sexton shepherd shipwright shoemaker silversmith singer smith soldier stonemason surgeon surveyor tailor
tanner teacher tinker trader translator tutor undertaker vicar waiter watchmaker weaver wheelwright woodcarver
zoologist""".split()

ADJECTIVES = """amber ancient ashen black blue brass bright broken bronze brown carved clever cold copper crimson
crooked curious dark distant double dusty early emerald empty fallen gentle gilded glass golden grand gray great green
hidden hollow iron ivory jade lame last late lazy leaden little lonely long lost lucky mellow merry narrow noble odd
old open painted pale patient plain proud purple quiet ragged red restless rising round ruby rusty sacred scarlet
secret sharp shining silent silver simple slender small smooth soft solemn square steady stone strange striped
sunken tall tiny twin upper velvet violet wandering warm white wild windy winter wooden yellow""".split()

THINGS = """anchor anvil apple arch arrow barge barrel basket beacon bell bench boat book bottle bowl box bridge broom
button cabin cage candle castle chain chair chapel chest clock cloak coach coin compass crown cup curtain dagger desk
dial door dragon drum fan feather fiddle field flag flute fountain garden gate globe goblet hammer harbour harp hat
helmet hill horn island jar jewel kettle key kite knife ladder lake lamp lantern lever locket loom map mask medal mill
mirror moon mug needle oak oar orchard organ oven pearl pebble pen pillar pipe pistol plate plough pocket pot purse
quilt raft ring river road robe rope rose saddle sail scarf seal shield ship shoe spoon star statue stove sundial sword
table thimble throne tower tray trumpet trunk tulip urn valley vase wagon watch well wheel whistle willow window
wreath""".split()

DISHES = "pie soup stew pudding tart broth cake salad porridge dumplings roast jelly bread pancakes curry hash".split()
MONTHS = "January February March April May June July August September October November December".split()
MONEY = "crowns pounds guineas shillings dollars florins ducats marks".split()
LENGTHS = "feet yards miles fathoms paces leagues".split()
SHADES = "pale dark bright deep dull light soft rich faded dusky warm cold".split()
COLOURS = "red blue green yellow brown gray violet orange pink purple scarlet crimson amber olive ivory silver".split()


def made_name(rng):
    """A word that no list has, so that it can only be copied."""
    word = "".join(rng.choice(ONSETS) + rng.choice(VOWELS) for _ in range(rng.choice((1, 1, 2))))
    return (word + rng.choice(CODAS)).capitalize()


def person(rng):
    first = rng.choice(FIRST) if rng.random() < 0.8 else made_name(rng)
    return first + " " + (rng.choice(LAST) if rng.random() < 0.6 else made_name(rng))


def place(rng):
    if rng.random() < 0.3:
        return made_name(rng)
    stem = rng.choice(LAST) if rng.random() < 0.4 else made_name(rng)
    return stem + rng.choice(PLACE_ENDS)


def title(rng):
    return (rng.choice(ADJECTIVES) + " " + rng.choice(THINGS)).title()


def a(words):
    return ("an " if words[0] in "aeiou" else "a ") + words


KINDS = {
    "person": person,
    "place": place,
    "title": title,
    "year": lambda rng: str(rng.randint(1600, 1999)),
    "count": lambda rng: str(rng.randint(11, 990)),
    "date": lambda rng: f"{rng.randint(1, 28)} {rng.choice(MONTHS)}",
    "money": lambda rng: f"{rng.randint(2, 980)} {rng.choice(MONEY)}",
    "length": lambda rng: f"{rng.randint(3, 960)} {rng.choice(LENGTHS)}",
    "hour": lambda rng: f"{rng.randint(1, 12)}:{rng.randint(0, 11) * 5:02d}",
    "goods": lambda rng: rng.choice(GOODS),
    "animal": lambda rng: a(rng.choice(ANIMALS)),
    "beast": lambda rng: a(rng.choice(ADJECTIVES) + " " + rng.choice(ANIMALS)),
    "trade": lambda rng: a(rng.choice(TRADES)),
    "thing": lambda rng: a(rng.choice(ADJECTIVES) + " " + rng.choice(THINGS)),
    "dish": lambda rng: rng.choice(GOODS).rstrip("s") + " " + rng.choice(DISHES),
    "colour": lambda rng: rng.choice(SHADES) + " " + rng.choice(COLOURS),
}
