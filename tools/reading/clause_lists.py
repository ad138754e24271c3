"""Phrases that fill roles and traits: reasons, purposes, vessels, deeds, ailments and the like."""


def listed(text):
    return text.replace("\n", "").split(";")


BROKEN = listed("""was broken;was too narrow;was flooded;was locked;was on fire;was out of order;
had been stolen;leaked;had not arrived;was too heavy;had collapsed;was frozen;was closed;was being painted;
had burst;was full of mice;was too loud;had run dry;was missing;had come loose;was blocked by snow;was sold out;
was empty;had cracked;did not fit;was too dear""")
WEATHER = listed("""it was raining;there was ice on the road;the fog was too thick;it had snowed all night;
the river had risen;the light was bad;a storm was coming;the wind had turned;it was too hot;it was getting dark;
there was no moon;nobody else had time;nobody had told them;there was no more room;the shops were shut;
the money had run out;there had been a strike;everyone was asleep;the bus drivers were on strike;
the doctor had forbidden it;the last train had gone;the neighbours had complained;the children were ill;
the power had failed""")
OWN = listed("""{p} was tired;{p} had lost a bet;{p} was afraid of the dark;{p} could not sleep;{p} had a cold;
{p} wanted to be alone;{p} had promised it;{p} had no money left;{p} was rather deaf;{p} had no licence;
{p} had hurt {o} knee;{p} liked the smell;{p} was bored;{p} needed the money;{p} had forgotten {o} glasses;
{p} could not swim;{p} did not trust the bank;{p} had mistaken the day;{p} was late;{p} had seen a ghost;
{p} was curious;{p} had too many already""")
PURPOSES = listed("""to pay for the {x};to please {o} {kin};to make room for the {x};to win a bet;to save money;
to keep out the mice;to get some rest;to learn {tongue};to impress the {trade};to escape the noise;
to surprise {o} {kin};to raise money for the {x};to replace the old {x};to keep warm;to settle a debt;
to see the {x};to visit {o} {kin};to help the {trade};to avoid the {trade};to look for the {x};to test the {x};
to have a rest from the {trade}""")
CAUSES = listed("""the drizzle;a strike;the fog;the tide;the noise;the moths;a bad knee;the heat;the ice;
an earache;the smoke;the price;a misprint;the flood;the frost;the wasps;a lost key;the snow;an old quarrel;
a wrong address;the mice;the dust;hay fever;the low bridge;the smell;a late train;the new rules;a power cut;
the wind;a wedding;the elections;a broken axle""")
KITCHEN = listed("""a wooden spoon;a sharp knife;a whisk;a fork;wet hands;a blunt knife;a rolling pin;a mortar;
a sieve;a ladle;a potato peeler;a linen cloth;a pair of scissors;a coffee mill;a damp cloth;a bread knife;
two forks;the back of a spoon""")
VESSELS = listed("""a wide pan;a heavy iron pot;a small saucepan;a copper pan;a deep pan;a covered pot;
a dry frying pan;an earthenware dish;a steel bowl;a large kettle;a cast-iron pan;a glass dish""")
FATS = listed("""butter;oil;lard;olive oil;goose fat;bacon fat;sesame oil;salted butter""")
LIQUIDS = listed("""water;cold water;warm milk;cider;white wine;vinegar;beer;lemon juice;broth;rum;buttermilk;
black tea""")
VEHICLES = listed("""by bus;by train;by bicycle;on foot;on a mule;by tram;by ferry;in a van;on skis;by sledge;
in a borrowed car;by taxi;on horseback;by canoe;on the milk cart;by steamer;in a balloon""")
ACTS = listed("""a song;a speech;soup;a prayer;a toast;a poem;tea;a minute of silence;a reading;a drum roll;
cake;a march;fireworks;a hymn;the anthem;a race""")
PROPER = listed("""Lady Aurelia;Tern;Tansy;Drowned Maid;Three Herons;Good Hope;Old Adam;Silver Eel;Blue Anchor;
Moonraker;Halcyon;Patience;Red Kite;Stella Maris;North Star;Little Bear;White Hart;Seven Sisters;Golden Hind;
Swallow;Black Swan;Mermaid""")
SIGHTS = listed("""the sea;snow;a desert;an elephant;the Alps;an opera;a whale;the northern lights;a volcano;
Venice;a comet;the Nile;a glacier;a balloon;palm trees;the Danube;a total eclipse;an iceberg;a coral reef;
Lapland""")
SAYINGS = listed("""Mind the step;Pass the salt;Who goes there;Nothing today, thank you;Long live the king;
Shut the door;More tea, vicar;All aboard;Good evening, officer;Where is my hat;Never on Sundays;Wipe your feet;
Ship ahoy;Not in front of the children;Poor old Henry;Ten past four;Sit down;Bring the bill;Fish again;
Off with his head;Open the window""")
ACTIVITIES = listed("""ride a bicycle;sing;go to church;drink coffee;write letters;dance;keep bees;
play the organ;eat meat;climb;teach;drive;answer the telephone;read newspapers;smoke a pipe;fish;bake;knit;swim;
play cards""")
DEEDS = """repair paint clean sell move replace insure measure rebuild inspect varnish weigh dismantle lock
polish open close buy fetch pay-for look-at draw photograph hide cover empty return take-away pull-down""".split()
SKILLS = listed("""bookbinding;Latin;swimming;shorthand;chess;baking;carpentry;dancing;beekeeping;sailing;
the violin;lace-making;weaving;Greek;fencing;knitting;pottery;the tango;grafting;juggling;clockmaking;riding""")
AILMENTS = listed("""gout;hay fever;influenza;a cold;rheumatism;toothache;mumps;a cough;measles;insomnia;
a sprained ankle;lumbago;a broken toe;a headache;asthma;a stiff neck;chickenpox;an earache""")
PENS = listed("""a quill;a pencil;green ink;a fountain pen;violet ink;chalk;a typewriter;a goose feather;
a carpenter's pencil;red ink;charcoal;a brush;a ballpoint""")
NAMINGS = listed("""it has no echo;it sleeps all day;it snores;it walks so slowly;it never smiles;
it bows to everyone;it likes incense;it looks so solemn;it hates music;it steals fish;it arrived at Christmas;
it has one white foot;it eats everything;it once bit a judge;it limps;it barks at priests;it came by ship;
it is never on time""")
EVENT_CLAUSES = listed("""the water is ready;the door is open;the battery is low;the filter is full;
it is switched on;it heats up;nobody is in the room;the tank is empty;the oven is hot;it rains;somebody knocks;
the time is up""")
FUELS = listed("""wood;peat;petrol;diesel;coal;two batteries;gas;paraffin;steam;sunlight;straw;vegetable oil;
turf;sawdust""")
WRAPS = listed("""newspaper;a damp cloth;brown paper;silk;straw;a blanket;oilcloth;tissue paper;a flag;
cabbage leaves;felt;a towel;sacking;foil;a linen cloth;birch bark""")
GERUNDS = """cutting sharpening weighing cleaning drying pressing mending carrying storing cooling warming
measuring stirring opening catching crushing peeling polishing""".split()
GERUND_THINGS = """apples letters bread knives fish shoes hay candles cheese herbs nuts hats eggs leather milk
ink ropes wool butter plums mice cards maps""".split()
AWAY = listed("""children;the fire;damp;the stove;dogs;sunlight;magnets;salt water;frost;the radiator;moths;
open windows""")
FOOD_PIECES = """potatoes onions leeks carrots eggs apples lemons pears tomatoes turnips parsnips quinces
oranges plums figs cucumbers beetroots cabbages""".split()
REPAIRS = listed("""new tiles;repairs;the winter;stocktaking;lack of staff;a wedding;rebuilding;
a week of mourning;new wiring;the holidays;lack of coal;an inspection""")
EXTRAS = """lamp pump key lid cover stand cushion saddle cable strap manual bell basket bow stool battery
charger chain lock shade case mirror handle filter""".split()
TIES = listed("""a belt;string;a shoelace;wire;a bootlace;a ribbon;two nails;a rope;a safety pin;a hairpin;glue;
tape;a chain""")
SUBJECTS = listed("""medicine;law;botany;geology;music;mathematics;Greek;history;theology;chemistry;astronomy;
Latin;drawing;economics;forestry;navigation;singing;geometry;physics;shorthand;needlework;cookery""")
SMALL_PARTS = """bolts screws nails keys hooks bulbs filters brushes needles cables cushions lids strings
candles""".split()
SCENE_DEEDS = listed("""feeding geese;reading a letter;peeling an apple;playing cards;asleep on a bench;
mending a net;holding a lamp;crossing a river;chasing a hat;tuning a violin;counting coins;drinking soup""")

WOOD = "larch oak ash beech birch maple pine spruce walnut teak bamboo cherry-wood chestnut elm".split()
_METAL = "cast-iron steel brass bronze copper tin pewter aluminium zinc wrought-iron".split()
_STONE = "brick granite marble slate sandstone limestone concrete timber clay-brick flint".split()
_CLOTH = "leather calfskin canvas linen cotton wool felt silk velvet nylon tweed corduroy fleece denim".split()
_FINE = "silver ivory horn amber mother-of-pearl porcelain glass gold jade ebony pewter enamel bone".split()
_WARE = "earthenware porcelain ceramic glass enamel stoneware soapstone wicker cork".split()
MATERIALS = {
    "clothes": _CLOTH, "furniture": WOOD + _METAL + ["wicker", "marble"], "vehicles": WOOD + _METAL,
    "boats": WOOD + ["steel", "concrete", "canvas"], "buildings": _STONE, "fittings": WOOD + _METAL + _STONE,
    "vessels": _WARE + _METAL + WOOD, "valuables": _FINE + _METAL + WOOD, "instruments": WOOD + _METAL + _FINE,
    "works": WOOD + _STONE + ["bronze", "wax", "lead", "straw"],
    "machines": _METAL + ["plastic", "glass", "cork", "rubber"],
    "tools": _METAL + WOOD,
}
MATERIALS = {
    kind: [word if word == "mother-of-pearl" else word.replace("-", " ") for word in words]
    for kind, words in MATERIALS.items()
}
FREQUENT = "once;twice;three times;four times;six times".split(";")
PERIODS = "day week month year night summer Sunday Friday".split()
PERSON_REASONS = listed("""was ill;had advised it;had left;had asked for it;did not come;had gone home;
wanted it;was late;had forbidden it;had overslept""")
THING_STATES = listed("""leaks;breaks down;is open;is empty;makes a noise;is dry;smells;is full;is frozen;
gets hot;jams;is wet""")
ESTATES = "Hall Priory Castle Park House Farm Abbey Mill".split()
